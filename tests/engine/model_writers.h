// Writes safetensors and GGUF files for tests, right ones and wrong ones: whatever it is told.
// It doesn't know models.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "offload/bytes.h"

namespace kvbed {

template <class Number>
std::string LittleEndian(Number number) {
  std::string bytes(sizeof(Number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(Number));
  return bytes;
}

inline std::string FloatBytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += LittleEndian(value);
  return bytes;
}

// A safetensors file of a header and data as given.
inline std::string SafetensorsOf(std::string_view header, std::string_view data) {
  return LittleEndian<uint64_t>(header.size()) + std::string(header) + std::string(data);
}

// Collects metadata and tensors; nothing is checked.
class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;  // of the data; also write the key when it isn't the default
  std::string metadata;
  uint64_t metadata_count = 0;
  std::string tensor_entries;
  uint64_t tensor_count = 0;
  std::string data;

  static std::string String(std::string_view text) {
    return LittleEndian<uint64_t>(text.size()) + std::string(text);
  }
  void Raw(std::string_view key, uint32_t type, std::string_view value) {
    metadata += String(key) + LittleEndian(type) + std::string(value);
    ++metadata_count;
  }
  void U32(std::string_view key, uint32_t value) { Raw(key, 4, LittleEndian(value)); }
  void F32(std::string_view key, float value) { Raw(key, 6, LittleEndian(value)); }
  void Bool(std::string_view key, bool value) { Raw(key, 7, LittleEndian<uint8_t>(value)); }
  void Text(std::string_view key, std::string_view value) { Raw(key, 8, String(value)); }
  void Texts(std::string_view key, const std::vector<std::string>& values) {
    std::string elements;
    for (const std::string& value : values) elements += String(value);
    Array(key, 8, values.size(), elements);
  }
  void I32s(std::string_view key, const std::vector<int32_t>& values) {
    std::string elements;
    for (const int32_t value : values) elements += LittleEndian(value);
    Array(key, 5, values.size(), elements);
  }
  void Array(std::string_view key, uint32_t type, uint64_t count, std::string_view elements) {
    Raw(key, 9, LittleEndian(type) + LittleEndian(count) + std::string(elements));
  }

  void Entry(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
             uint64_t offset) {
    tensor_entries += String(name) + LittleEndian(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensor_entries += LittleEndian(dim);
    tensor_entries += LittleEndian(type) + LittleEndian(offset);
    ++tensor_count;
  }
  // Places the bytes behind those of the tensor before, aligned.
  void Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
              std::string_view bytes) {
    data.resize(RoundUp(data.size(), alignment));
    Entry(name, dims, type, data.size());
    data += bytes;
  }

  std::string File() const {
    std::string file = "GGUF" + LittleEndian(version) + LittleEndian(tensor_count) +
                       LittleEndian(metadata_count) + metadata + tensor_entries;
    file.resize(RoundUp(file.size(), alignment));
    return file + data;
  }
};

}  // namespace kvbed
