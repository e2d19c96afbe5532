// A random order that a seed gives again.
#pragma once

#include <cstdint>
#include <vector>

namespace kvbed {

// 0 to count - 1, each once. The same everywhere.
std::vector<uint64_t> SeededOrder(uint64_t count, uint64_t seed);

}  // namespace kvbed
