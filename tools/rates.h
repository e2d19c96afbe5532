// Bytes over time, in the unit that every figure has: GB/s, GB = 10^9 bytes.
#pragma once

#include <cstdint>
#include <optional>

namespace kvbed {

// Nullopt for no time.
inline std::optional<double> GbPerS(uint64_t bytes, uint64_t ns) {
  if (ns == 0 || bytes == 0) return std::nullopt;
  return static_cast<double>(bytes) / static_cast<double>(ns);
}

}  // namespace kvbed
