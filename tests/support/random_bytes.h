// Seeded bytes without a pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace kvbed {

inline std::vector<std::byte> RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace kvbed
