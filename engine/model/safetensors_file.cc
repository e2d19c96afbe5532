#include "engine/model/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/model/json_document.h"
#include "engine/model/utf8.h"

namespace kvbed {
namespace {

struct DtypeBytes {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<DtypeBytes, 17> kDtypes = {{{"BOOL", 1},
                                                 {"U8", 1},
                                                 {"I8", 1},
                                                 {"F8_E5M2", 1},
                                                 {"F8_E4M3", 1},
                                                 {"F8_E8M0", 1},
                                                 {"I16", 2},
                                                 {"U16", 2},
                                                 {"F16", 2},
                                                 {"BF16", 2},
                                                 {"I32", 4},
                                                 {"U32", 4},
                                                 {"F32", 4},
                                                 {"I64", 8},
                                                 {"U64", 8},
                                                 {"F64", 8},
                                                 {"C64", 8}}};

Status ForTensor(std::string_view name, std::string_view what) {
  return Status::Corruption(fmt::format("tensor {}: {}", PrintableText(name, 200), what));
}

// The header's text; what follows it is data.
Result<Bytes> HeaderOf(Bytes file) {
  if (file.size() < 8)
    return Status::Corruption(fmt::format(
        "the file is too short: {} bytes, the header's length alone takes 8", file.size()));
  const auto length = LoadLe<uint64_t>(file, 0);
  if (length > kSafetensorsHeaderBytesMax)
    return Status::Corruption(fmt::format("header length {} is above the format's limit of {}",
                                          length, kSafetensorsHeaderBytesMax));
  if (length > file.size() - 8)
    return Status::Corruption(
        fmt::format("header length {} reaches past the end of the file, whose size is {}", length,
                    file.size()));
  const Bytes header = file.subspan(8, length);
  if (header.empty() || header[0] != std::byte{'{'})
    return Status::Corruption("the header doesn't begin with '{': no safetensors file");
  return header;
}

Result<std::vector<uint64_t>> ReadNumbers(const Json& entry, std::string_view key) {
  const Json* list = FindField(entry, key);
  if (list == nullptr || !list->is_array())
    return Status::Corruption(fmt::format("{} is missing or no list", key));
  std::vector<uint64_t> numbers;
  for (const Json& number : *list) {
    if (!number.is_number_unsigned())
      return Status::Corruption(
          fmt::format("{} holds {}, must be whole numbers", key, JsonForMessage(number)));
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

// Bytes of dtype x shape.
Result<uint64_t> ExpectedBytes(const std::string& dtype, const std::vector<uint64_t>& shape) {
  const auto* known = std::find_if(kDtypes.begin(), kDtypes.end(),
                                   [&](const DtypeBytes& d) { return d.name == dtype; });
  if (known == kDtypes.end())
    return Status::NotSupported(fmt::format("unknown dtype \"{}\"", PrintableText(dtype)));
  uint64_t bytes = known->bytes;
  for (const uint64_t dim : shape)
    if (__builtin_mul_overflow(bytes, dim, &bytes))
      return Status::Corruption("the product of the shape overflows");
  return bytes;
}

Result<SafetensorsTensor> ReadTensor(const std::string& name, const Json& entry, Bytes data) {
  SafetensorsTensor tensor{.name = name, .dtype = {}, .shape = {}, .data = {}};
  KVBED_RETURN_IF_ERROR(ReadField(entry, "dtype", Need::kRequired, &tensor.dtype));
  KVBED_ASSIGN_OR_RETURN(tensor.shape, ReadNumbers(entry, "shape"));
  KVBED_ASSIGN_OR_RETURN(const auto offsets, ReadNumbers(entry, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    return Status::Corruption("data_offsets must be [begin, end] with begin up to end");
  const uint64_t begin = offsets[0], end = offsets[1];
  if (end > data.size())
    return Status::Corruption(
        fmt::format("data_offsets [{}, {}] reach past the end of the data, whose size is {}: the "
                    "file is truncated",
                    begin, end, data.size()));
  KVBED_ASSIGN_OR_RETURN(const uint64_t expected, ExpectedBytes(tensor.dtype, tensor.shape));
  if (expected != end - begin)
    return Status::Corruption(fmt::format("shape [{}] of {} takes {} bytes, data_offsets give {}",
                                          fmt::join(tensor.shape, ", "), tensor.dtype, expected,
                                          end - begin));
  tensor.data = data.subspan(begin, end - begin);
  return tensor;
}

// In offset order the tensors must follow each other from the first data byte to the last.
Status CheckCoverage(std::vector<SafetensorsTensor>& tensors, Bytes data) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.data.data() != b.data.data() ? a.data.data() < b.data.data()
                                          : a.data.size() < b.data.size();
  });
  uint64_t covered = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const auto begin = static_cast<uint64_t>(tensor.data.data() - data.data());
    if (begin < covered) return ForTensor(tensor.name, "its offsets overlap those of another");
    if (begin > covered)
      return ForTensor(tensor.name, fmt::format("a hole of {} bytes lies before its offset {}",
                                                begin - covered, begin));
    covered += tensor.data.size();
  }
  if (covered == data.size()) return Status::Ok();
  return Status::Corruption(fmt::format("a hole: the last {} bytes of the file belong to no tensor",
                                        data.size() - covered));
}

}  // namespace

Result<std::vector<SafetensorsTensor>> ParseSafetensors(Bytes file) {
  KVBED_ASSIGN_OR_RETURN(const Bytes header, HeaderOf(file));
  const Bytes data = file.subspan(8 + header.size());
  auto parsed = ParseJson(header);
  if (!parsed.ok()) return parsed.status().WithContext("header");
  std::vector<SafetensorsTensor> tensors;
  for (const auto& [name, entry] : parsed->items()) {
    if (name == "__metadata__") continue;
    auto tensor = ReadTensor(name, entry, data);
    if (!tensor.ok())
      return tensor.status().WithContext(fmt::format("tensor {}", PrintableText(name, 200)));
    tensors.push_back(std::move(tensor).value());
  }
  KVBED_RETURN_IF_ERROR(CheckCoverage(tensors, data));
  return tensors;
}

}  // namespace kvbed
