#include "tools/diff/dump_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/safetensors_file.h"
#include "tools/diff/block_table.h"
#include "tools/diff/dump_layout.h"
#include "tools/diff/dump_names.h"

namespace kvbed {
namespace {

Result<KvElement> ElementOf(const std::string& dtype) {
  if (dtype == "BF16") return KvElement::kBf16;
  if (dtype == "F16") return KvElement::kFp16;
  if (dtype == "F32") return KvElement::kFp32;
  if (dtype == "F8_E4M3") return KvElement::kFp8E4m3;
  if (dtype == "F8_E5M2") return KvElement::kFp8E5m2;
  if (dtype == "I8") return KvElement::kInt8;
  if (dtype == "U8") return KvElement::kByte;
  return Status::NotSupported(fmt::format(
      "dtype {} is none that K and V are compared in: BF16, F16, F32, F8_E4M3, F8_E5M2, I8, U8",
      dtype));
}

// Far above any model: what is beyond was meant otherwise, and isn't worth the memory.
constexpr uint64_t kDumpLayersMax = 10'000;
constexpr uint64_t kDumpHeadDimMax = 65'536;

std::string DefaultLayout(size_t dimensions, bool has_layer, bool has_part) {
  if (has_layer && has_part && dimensions == 4) return "1HTD";
  if (has_layer && has_part && dimensions == 3) return "HTD";
  if (!has_layer && has_part && dimensions == 4) return "LHTD";
  if (!has_layer && !has_part && dimensions == 5) return "L2HTD";
  return {};
}

}  // namespace

// Of one shape and dtype: K then V of each layer, or fewer, as the names say.
struct DumpFile::Tensors {
  bool has_layer = false;
  bool has_part = false;
  std::vector<uint64_t> shape;
  std::vector<Bytes> data;
};

Result<DumpFile> DumpFile::Open(const std::string& path, const DumpOptions& options) {
  auto mapped = MappedFile::Open(path);
  if (!mapped.ok()) {
    // A folder or a device is an unusable file here and no mistake of an option's.
    const bool argument = mapped.status().code() == StatusCode::kInvalidArgument;
    return argument ? Status::NotSupported(mapped.status().message()) : mapped.status();
  }
  DumpFile file(std::move(mapped).value());
  const Status read = options.shape ? file.ReadRaw(options) : file.ReadSafetensors(options);
  if (!read.ok()) return read.WithContext(path);
  return file;
}

Status DumpFile::ReadSafetensors(const DumpOptions& options) {
  if (AsText(file_.bytes()).starts_with("PK")) {
    return Status::NotSupported(
        "a zip, as torch.save and numpy.savez write: save it with safetensors (docs/diff.md)");
  }
  auto parsed = ParseSafetensors(file_.bytes());
  if (!parsed.ok()) {
    // A damaged safetensors file isn't taken for a raw dump.
    const bool has_header = AsText(file_.bytes()).substr(0, 9).ends_with('{');
    return Status(parsed.status().code(),
                  parsed.status().message() + (has_header ? "" : "; a raw dump needs --kv-shape"));
  }
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : *parsed) names.push_back(tensor.name);
  KVBED_ASSIGN_OR_RETURN(const NamedTensors named, NameTensors(names, options.key_pattern));
  description_.format = "safetensors";
  description_.pattern = named.pattern.text();
  for (const size_t i : named.rest) description_.not_compared.push_back(names[i]);
  const SafetensorsTensor& first = (*parsed)[named.tensors[0]];
  Tensors tensors{named.pattern.has_layer(), named.pattern.has_part(), first.shape, {}};
  for (const size_t i : named.tensors) {
    const SafetensorsTensor& one = (*parsed)[i];
    if (one.dtype != first.dtype || one.shape != first.shape) {
      return Status::Corruption(fmt::format(
          "{} is {} [{}] and {} is {} [{}]: the layers of a dump must be of one shape and dtype",
          first.name, first.dtype, fmt::join(first.shape, ", "), one.name, one.dtype,
          fmt::join(one.shape, ", ")));
    }
    tensors.data.push_back(one.data);
  }
  auto element = ElementOf(first.dtype);
  if (!element.ok()) return element.status().WithContext(first.name);
  dump_.shape.element = *element;
  return Place(tensors, options);
}

Status DumpFile::ReadRaw(const DumpOptions& options) {
  description_.format = "raw";
  dump_.shape.element = options.element;
  uint64_t bytes = KvElementBytes(options.element);
  for (const uint64_t count : *options.shape) {
    if (__builtin_mul_overflow(bytes, count, &bytes)) {
      return Status::InvalidArgument("--kv-shape is above 2^64 bytes");
    }
  }
  if (bytes != file_.bytes().size()) {
    return Status::Corruption(fmt::format("{} bytes, but --kv-shape {} of {} takes {}",
                                          file_.bytes().size(), fmt::join(*options.shape, ","),
                                          KvElementName(options.element), bytes));
  }
  return Place({false, false, *options.shape, {file_.bytes()}}, options);
}

Status DumpFile::Place(const Tensors& tensors, const DumpOptions& options) {
  const bool given = options.layout.has_value();
  const std::string text =
      given ? *options.layout
            : DefaultLayout(tensors.shape.size(), tensors.has_layer, tensors.has_part);
  if (text.empty()) {
    return Status::InvalidArgument(fmt::format(
        "a tensor of the shape [{}]{}: say what its dimensions are with --layout, e.g. L2HTD, or "
        "2NTHD with --block-table",
        fmt::join(tensors.shape, ", "),
        description_.pattern.empty() ? "" : fmt::format(" by {}", description_.pattern)));
  }
  KVBED_ASSIGN_OR_RETURN(const DumpLayout layout, ParseDumpLayout(text));
  const auto once = [&](bool in_name, KvAxis axis, std::string_view what) {
    if (in_name != layout.Has(axis)) return Status::Ok();
    return Status::InvalidArgument(fmt::format(
        "{} in {}: the pattern {} and the layout {} (--layout given twice is for A, then for B; '' "
        "for none)",
        what, in_name ? "both" : "neither",
        description_.pattern.empty() ? "(none)" : description_.pattern, layout.text));
  };
  KVBED_RETURN_IF_ERROR(once(tensors.has_layer, KvAxis::kLayer, "the layer ({layer} or L) is"));
  KVBED_RETURN_IF_ERROR(once(tensors.has_part, KvAxis::kPart, "K and V ({K|V} or 2) are"));
  const uint64_t element_bytes = KvElementBytes(dump_.shape.element);
  auto placed =
      PlaceAxes(layout, tensors.shape, element_bytes, {options.kv_heads, options.block_tokens});
  if (!placed.ok()) {
    // Without a layout of the user's it is the file that is none.
    return given ? placed.status() : Status::Corruption(placed.status().message());
  }
  const PlacedAxes& axes = *placed;
  dump_.shape.layers = layout.Has(KvAxis::kLayer)
                           ? axes.layer.count
                           : tensors.data.size() / (tensors.has_part ? 2 : 1);
  dump_.shape.kv_heads = axes.head.count;
  dump_.shape.head_dim = axes.dim.count * axes.dim_inner.count;
  if (dump_.shape.layers > kDumpLayersMax || dump_.shape.head_dim > kDumpHeadDimMax) {
    return Status::InvalidArgument(fmt::format(
        "layout {} of [{}] gives {} layers of head_dim {}, more than {} or {}: is it another?",
        layout.text, fmt::join(tensors.shape, ", "), dump_.shape.layers, dump_.shape.head_dim,
        kDumpLayersMax, kDumpHeadDimMax));
  }
  dump_.strides = {.head = axes.head.stride_bytes,
                   .token = axes.token.stride_bytes,
                   .block = axes.block.stride_bytes,
                   .dim = axes.dim.stride_bytes,
                   .dim_inner = axes.dim_inner.stride_bytes,
                   .dims_together = axes.dim_inner.count};
  for (uint64_t layer = 0; layer < dump_.shape.layers; ++layer) {
    for (uint64_t part = 0; part < 2; ++part) {
      const size_t tensor = (tensors.has_layer ? layer : 0) * (tensors.has_part ? 2 : 1) +
                            (tensors.has_part ? part : 0);
      dump_.parts.push_back(tensors.data[tensor].subspan(layer * axes.layer.stride_bytes +
                                                         part * axes.part.stride_bytes));
    }
  }
  description_.layout = layout.text;
  description_.tensor_shape = tensors.shape;
  dump_.end_token = axes.token.count;
  if (!layout.Has(KvAxis::kBlock)) return Status::Ok();
  if (!options.block_table) {
    return Status::InvalidArgument(
        fmt::format("layout {} has blocks (N): give the sequence's --block-table", layout.text));
  }
  KVBED_ASSIGN_OR_RETURN(block_table_, ReadBlockTable(*options.block_table));
  const uint64_t tokens = options.tokens.value_or(UINT64_MAX);
  for (size_t i = 0; i < block_table_.size() && i * axes.token.count < tokens; ++i) {
    if (block_table_[i] < axes.block.count) continue;
    return Status::Corruption(
        fmt::format("entry {} of the block table is {}, and there are {} "
                    "blocks",
                    i, block_table_[i], axes.block.count));
  }
  dump_.block_tokens = axes.token.count;
  dump_.block_table = block_table_;
  dump_.end_token = block_table_.size() * axes.token.count;
  return Status::Ok();
}

}  // namespace kvbed
