#include "tools/bench/seeded_order.h"

#include <numeric>
#include <random>
#include <utility>

namespace kvbed {

// Fisher and Yates's shuffle, written out since std::shuffle's order differs between libraries.
std::vector<uint64_t> SeededOrder(uint64_t count, uint64_t seed) {
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::mt19937_64 random(seed);
  for (uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

}  // namespace kvbed
