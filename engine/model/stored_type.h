// The element types in which model files store numbers, and how many bytes they take.
// It doesn't know what the bytes mean (quantized_rows.h) nor any file format's type ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvbed {

enum class StoredType : uint8_t {
  kF32,
  kF16,
  kBf16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kGenerated,  // a toy's numbers: computed, not stored
};

// A row is a whole number of blocks; the plain types have blocks of one element.
struct StoredTypeInfo {
  std::string_view name;  // "F32", "Q4_K", ...
  uint32_t block_elements = 1;
  uint32_t block_bytes = 0;
};

const StoredTypeInfo& InfoOf(StoredType type);
inline std::string_view StoredTypeName(StoredType type) { return InfoOf(type).name; }

// Bytes of `elements` numbers; nullopt when that is no whole number of blocks or above 2^63.
std::optional<uint64_t> StoredBytes(StoredType type, uint64_t elements);

}  // namespace kvbed
