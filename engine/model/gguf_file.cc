#include "engine/model/gguf_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/utf8.h"

namespace kvbed {
namespace {

constexpr uint64_t kAlignmentDefault = 32;
constexpr uint32_t kDimsMax = 4;
// Far above any model's; they bound the index that a file of nonsense can ask for.
constexpr uint64_t kMetadataMax = 1 << 16, kTensorsMax = 1 << 18;

// Type ids: enum ggml_type in ggml.h.
struct TypeId {
  uint32_t id;
  StoredType type;
};
constexpr std::array<TypeId, 11> kTensorTypes = {{{0, StoredType::kF32},
                                                  {1, StoredType::kF16},
                                                  {2, StoredType::kQ4_0},
                                                  {3, StoredType::kQ4_1},
                                                  {6, StoredType::kQ5_0},
                                                  {7, StoredType::kQ5_1},
                                                  {8, StoredType::kQ8_0},
                                                  {12, StoredType::kQ4_K},
                                                  {13, StoredType::kQ5_K},
                                                  {14, StoredType::kQ6_K},
                                                  {30, StoredType::kBf16}}};

// Bytes of a scalar; 0 for strings, arrays and unknown types.
uint64_t ScalarBytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool: return 1;
    case GgufType::kU16:
    case GgufType::kI16: return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32: return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64: return 8;
    default: return 0;
  }
}

// Reads forward; every read is checked against what is left.
class Cursor {
 public:
  explicit Cursor(Bytes file) : file_(file) {}

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return file_.size() - offset_; }

  Result<Bytes> Take(uint64_t bytes, std::string_view what) {
    if (bytes > left())
      return Status::Corruption(
          fmt::format("end of file at {} while reading {} of {} bytes at offset {}: the file is "
                      "truncated",
                      file_.size(), what, bytes, offset_));
    const Bytes taken = file_.subspan(offset_, bytes);
    offset_ += bytes;
    return taken;
  }
  template <class Integer>
  Result<Integer> Number(std::string_view what) {
    KVBED_ASSIGN_OR_RETURN(const Bytes bytes, Take(sizeof(Integer), what));
    return LoadLe<Integer>(bytes, 0);
  }
  Result<std::string_view> String(std::string_view what) {
    KVBED_ASSIGN_OR_RETURN(const auto length, Number<uint64_t>(what));
    KVBED_ASSIGN_OR_RETURN(const Bytes bytes, Take(length, what));
    return AsText(bytes);
  }

 private:
  Bytes file_;
  uint64_t offset_ = 0;
};

struct Counts {
  uint64_t tensors = 0;
  uint64_t metadata = 0;
};

Status CheckPossible(std::string_view what, uint64_t count, uint64_t most) {
  if (count <= most) return Status::Ok();
  return Status::Corruption(
      fmt::format("{} count {} isn't possible in a file of this size (at most {}): the file is "
                  "truncated or damaged",
                  what, count, most));
}

Result<Counts> ReadHeader(Cursor& cursor) {
  KVBED_ASSIGN_OR_RETURN(const Bytes magic, cursor.Take(4, "the magic"));
  if (AsText(magic) != "GGUF")
    return Status::Corruption(
        fmt::format("magic is \"{}\", not GGUF", PrintableText(AsText(magic))));
  KVBED_ASSIGN_OR_RETURN(const auto version, cursor.Number<uint32_t>("the version"));
  if (version != 0 && (version & 0xffff) == 0)
    return Status::NotSupported("the file is big-endian (GGUF version with swapped bytes)");
  if (version != 2 && version != 3)
    return Status::NotSupported(
        fmt::format("GGUF version {} isn't supported (2 and 3 are)", version));
  Counts counts;
  KVBED_ASSIGN_OR_RETURN(counts.tensors, cursor.Number<uint64_t>("the tensor count"));
  KVBED_ASSIGN_OR_RETURN(counts.metadata, cursor.Number<uint64_t>("the metadata count"));
  // The smallest metadata entry has 8 + 1 + 4 + 1 bytes, the smallest tensor 8 + 1 + 4 + 8 + 4 + 8.
  KVBED_RETURN_IF_ERROR(
      CheckPossible("metadata", counts.metadata, std::min(cursor.left() / 14, kMetadataMax)));
  KVBED_RETURN_IF_ERROR(
      CheckPossible("tensor", counts.tensors, std::min(cursor.left() / 33, kTensorsMax)));
  return counts;
}

Result<GgufValue> ReadArray(Cursor& cursor) {
  GgufValue value{.type = GgufType::kArray, .bytes = {}};
  KVBED_ASSIGN_OR_RETURN(const auto type, cursor.Number<uint32_t>("an array's type"));
  KVBED_ASSIGN_OR_RETURN(value.count, cursor.Number<uint64_t>("an array's length"));
  value.element_type = static_cast<GgufType>(type);
  const uint64_t element_bytes = ScalarBytes(value.element_type);
  if (element_bytes == 0 && value.element_type != GgufType::kString)
    return Status::NotSupported(fmt::format("an array of type {} isn't supported", type));
  // A string takes at least its length field.
  if (value.count > cursor.left() / (element_bytes == 0 ? 8 : element_bytes))
    return Status::Corruption(
        fmt::format("array length {} reaches past the end of file", value.count));
  if (element_bytes != 0) {
    KVBED_ASSIGN_OR_RETURN(value.bytes, cursor.Take(value.count * element_bytes, "an array"));
    return value;
  }
  Cursor walk = cursor;
  for (uint64_t i = 0; i < value.count; ++i) {
    KVBED_ASSIGN_OR_RETURN(const auto text, walk.String("a string of an array"));
    (void)text;
  }
  KVBED_ASSIGN_OR_RETURN(value.bytes, cursor.Take(walk.offset() - cursor.offset(), "an array"));
  return value;
}

Result<GgufValue> ReadValue(Cursor& cursor) {
  KVBED_ASSIGN_OR_RETURN(const auto id, cursor.Number<uint32_t>("a value's type"));
  const auto type = static_cast<GgufType>(id);
  if (type == GgufType::kArray) return ReadArray(cursor);
  GgufValue value{.type = type, .bytes = {}};
  if (type == GgufType::kString) {
    KVBED_ASSIGN_OR_RETURN(const auto text, cursor.String("a string"));
    value.bytes = AsBytes(text);
    return value;
  }
  const uint64_t bytes = ScalarBytes(type);
  if (bytes == 0) return Status::Corruption(fmt::format("value type {} is unknown", id));
  KVBED_ASSIGN_OR_RETURN(value.bytes, cursor.Take(bytes, "a value"));
  return value;
}

Status ReadMetadata(Cursor& cursor, uint64_t count,
                    std::map<std::string_view, GgufValue>* metadata) {
  for (uint64_t i = 0; i < count; ++i) {
    KVBED_ASSIGN_OR_RETURN(const std::string_view key, cursor.String("a metadata key"));
    if (key.empty()) return Status::Corruption(fmt::format("metadata entry {} has no key", i));
    auto value = ReadValue(cursor);
    if (!value.ok())
      return value.status().WithContext(fmt::format("metadata key {}", PrintableText(key)));
    if (!metadata->emplace(key, *value).second)
      return Status::Corruption(fmt::format("metadata key {} is there twice", PrintableText(key)));
  }
  return Status::Ok();
}

Result<StoredType> TensorType(uint32_t id) {
  for (const TypeId& known : kTensorTypes)
    if (known.id == id) return known.type;
  std::string names;
  for (const TypeId& known : kTensorTypes)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", StoredTypeName(known.type));
  return Status::NotSupported(
      fmt::format("ggml type {} isn't supported; kvbed reads {}", id, names));
}

// A tensor's entry, its data yet unknown, and the offset of the data.
struct TensorEntry {
  GgufTensor tensor;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

Status ReadTensorEntry(Cursor& cursor, TensorEntry* entry) {
  KVBED_ASSIGN_OR_RETURN(const auto dim_count, cursor.Number<uint32_t>("the number of dimensions"));
  if (dim_count < 1 || dim_count > kDimsMax)
    return Status::Corruption(
        fmt::format("it has {} dimensions, must be 1 to {}", dim_count, kDimsMax));
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dim_count; ++i) {
    KVBED_ASSIGN_OR_RETURN(const auto dim, cursor.Number<uint64_t>("a dimension"));
    if (dim == 0) return Status::Corruption("a dimension is 0");
    if (__builtin_mul_overflow(elements, dim, &elements))
      return Status::Corruption("the product of its dimensions overflows");
    entry->tensor.dims.push_back(dim);
  }
  KVBED_ASSIGN_OR_RETURN(const auto type, cursor.Number<uint32_t>("a tensor's type"));
  KVBED_ASSIGN_OR_RETURN(entry->tensor.type, TensorType(type));
  KVBED_ASSIGN_OR_RETURN(entry->offset, cursor.Number<uint64_t>("a tensor's offset"));
  const StoredTypeInfo& info = InfoOf(entry->tensor.type);
  if (entry->tensor.dims[0] % info.block_elements != 0)
    return Status::Corruption(
        fmt::format("its first dimension {} is no multiple of {}'s block of {}",
                    entry->tensor.dims[0], info.name, info.block_elements));
  const auto bytes = StoredBytes(entry->tensor.type, elements);
  if (!bytes) return Status::Corruption("its size in bytes overflows");
  entry->bytes = *bytes;
  return Status::Ok();
}

Result<uint64_t> AlignmentOf(const GgufFile& file) {
  constexpr std::string_view kKey = "general.alignment";
  const GgufValue* value = file.Find(kKey);
  if (value == nullptr) return kAlignmentDefault;
  if (value->type != GgufType::kU32)
    return Status::Corruption("general.alignment is no 32-bit whole number");
  const uint64_t alignment = LoadLe<uint32_t>(value->bytes, 0);
  if (!std::has_single_bit(alignment))
    return Status::Corruption(
        fmt::format("general.alignment is {}, must be a power of two", alignment));
  return alignment;
}

// Gives each tensor its bytes, after checking that they lie in the data, aligned and apart.
Status PlaceTensors(Bytes data, uint64_t alignment, std::vector<TensorEntry>& entries) {
  for (TensorEntry& entry : entries) {
    const std::string name = PrintableText(entry.tensor.name, 200);
    if (entry.offset % alignment != 0)
      return Status::Corruption(
          fmt::format("tensor {}: offset {} is no multiple of the alignment {}", name, entry.offset,
                      alignment));
    if (entry.offset > data.size() || entry.bytes > data.size() - entry.offset)
      return Status::Corruption(
          fmt::format("tensor {}: {} bytes at offset {} reach past the end of file ({} bytes of "
                      "data): the file is truncated",
                      name, entry.bytes, entry.offset, data.size()));
    entry.tensor.data = data.subspan(entry.offset, entry.bytes);
  }
  std::vector<const TensorEntry*> order;
  for (const TensorEntry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
      return Status::Corruption(fmt::format(
          "tensors {} and {} overlap: their offsets are {} and {}",
          PrintableText(order[i - 1]->tensor.name, 200), PrintableText(order[i]->tensor.name, 200),
          order[i - 1]->offset, order[i]->offset));
  return Status::Ok();
}

Status WrongType(std::string_view key, std::string_view wanted) {
  return Status::Corruption(fmt::format("metadata key {} must be {}", key, wanted));
}

// The two's complement value of an integer type; nullopt for the others.
std::optional<int64_t> SignedValue(GgufType type, Bytes bytes) {
  switch (type) {
    case GgufType::kU8: return LoadLe<uint8_t>(bytes, 0);
    case GgufType::kI8: return static_cast<int8_t>(LoadLe<uint8_t>(bytes, 0));
    case GgufType::kU16: return LoadLe<uint16_t>(bytes, 0);
    case GgufType::kI16: return static_cast<int16_t>(LoadLe<uint16_t>(bytes, 0));
    case GgufType::kU32: return LoadLe<uint32_t>(bytes, 0);
    case GgufType::kI32: return static_cast<int32_t>(LoadLe<uint32_t>(bytes, 0));
    case GgufType::kU64:
    case GgufType::kI64: return static_cast<int64_t>(LoadLe<uint64_t>(bytes, 0));
    default: return std::nullopt;
  }
}

}  // namespace

Result<GgufFile> GgufFile::Parse(Bytes bytes) {
  Cursor cursor(bytes);
  GgufFile file;
  KVBED_ASSIGN_OR_RETURN(const Counts counts, ReadHeader(cursor));
  KVBED_RETURN_IF_ERROR(ReadMetadata(cursor, counts.metadata, &file.metadata_));
  KVBED_ASSIGN_OR_RETURN(const uint64_t alignment, AlignmentOf(file));
  std::vector<TensorEntry> entries;
  std::map<std::string_view, uint64_t> names;
  for (uint64_t i = 0; i < counts.tensors; ++i) {
    KVBED_ASSIGN_OR_RETURN(const std::string_view name, cursor.String("a tensor's name"));
    if (!names.emplace(name, i).second)
      return Status::Corruption(fmt::format("tensor {} is there twice", PrintableText(name, 200)));
    TensorEntry& entry = entries.emplace_back();
    entry.tensor.name = name;
    if (const Status status = ReadTensorEntry(cursor, &entry); !status.ok())
      return status.WithContext(fmt::format("tensor {}", PrintableText(name, 200)));
  }
  // Alignments are 32-bit, so the sum can't wrap.
  const uint64_t data_offset = RoundUp(cursor.offset(), alignment);
  if (data_offset > bytes.size() && !entries.empty())
    return Status::Corruption(
        fmt::format("the data would begin at {} (alignment {}), past the end of file at {}: the "
                    "file is truncated or its general.alignment wrong",
                    data_offset, alignment, bytes.size()));
  const Bytes data = bytes.subspan(std::min<uint64_t>(data_offset, bytes.size()));
  KVBED_RETURN_IF_ERROR(PlaceTensors(data, alignment, entries));
  for (TensorEntry& entry : entries) file.tensors_.push_back(std::move(entry.tensor));
  return file;
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

Result<std::optional<uint64_t>> GgufFile::WholeNumber(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<uint64_t>();
  const auto number = SignedValue(value->type, value->bytes);
  if (!number || *number < 0) return WrongType(key, "a whole number");
  return std::optional<uint64_t>(static_cast<uint64_t>(*number));
}

Result<std::optional<double>> GgufFile::Number(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  if (value->type == GgufType::kF32)
    return std::optional<double>(std::bit_cast<float>(LoadLe<uint32_t>(value->bytes, 0)));
  if (value->type == GgufType::kF64)
    return std::optional<double>(std::bit_cast<double>(LoadLe<uint64_t>(value->bytes, 0)));
  return WrongType(key, "a floating-point number");
}

Result<std::optional<bool>> GgufFile::Flag(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<bool>();
  if (value->type != GgufType::kBool) return WrongType(key, "true or false");
  return std::optional<bool>(value->bytes[0] != std::byte{0});
}

Result<std::optional<std::string_view>> GgufFile::Text(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<std::string_view>();
  if (value->type != GgufType::kString) return WrongType(key, "a string");
  return std::optional<std::string_view>(AsText(value->bytes));
}

Result<std::vector<std::string_view>> GgufFile::Texts(std::string_view key) const {
  const GgufValue* value = Find(key);
  std::vector<std::string_view> texts;
  if (value == nullptr) return texts;
  if (value->type != GgufType::kArray || value->element_type != GgufType::kString)
    return WrongType(key, "an array of strings");
  Cursor cursor(value->bytes);
  for (uint64_t i = 0; i < value->count; ++i) {
    KVBED_ASSIGN_OR_RETURN(const std::string_view text, cursor.String("a string"));
    texts.push_back(text);
  }
  return texts;
}

Result<std::vector<int64_t>> GgufFile::WholeNumbers(std::string_view key) const {
  const GgufValue* value = Find(key);
  std::vector<int64_t> numbers;
  if (value == nullptr) return numbers;
  const uint64_t width = ScalarBytes(value->element_type);
  for (uint64_t i = 0; value->type == GgufType::kArray && i < value->count; ++i) {
    const auto number =
        width == 0 ? std::nullopt
                   : SignedValue(value->element_type, value->bytes.subspan(i * width, width));
    if (!number) break;
    numbers.push_back(*number);
  }
  if (value->type != GgufType::kArray || numbers.size() != value->count)
    return WrongType(key, "an array of whole numbers");
  return numbers;
}

}  // namespace kvbed
