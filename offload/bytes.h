// Borrowed bytes, little-endian fields and hexadecimal text.
// Formats are encoded field by field with these, never by copying a struct.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "offload/check.h"

namespace kvbed {

static_assert(std::endian::native == std::endian::little,
              "KV payload is stored as the host has it, and the formats are little-endian");

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline Bytes AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view AsText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Integer>
requires std::is_unsigned_v<Integer>
void StoreLe(MutableBytes out, size_t offset, Integer value) {
  KVBED_CHECK(offset + sizeof(Integer) <= out.size());
  std::memcpy(out.data() + offset, &value, sizeof(Integer));
}

template <class Integer>
requires std::is_unsigned_v<Integer> Integer LoadLe(Bytes in, size_t offset) {
  KVBED_CHECK(offset + sizeof(Integer) <= in.size());
  Integer value;
  std::memcpy(&value, in.data() + offset, sizeof(Integer));
  return value;
}

constexpr uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool AllZero(Bytes bytes);

// Lower case, two digits a byte, in memory order.
std::string ToHex(Bytes bytes);
// Nullopt when `text` is not an even number of hexadecimal digits.
std::optional<std::string> FromHex(std::string_view text);

}  // namespace kvbed
