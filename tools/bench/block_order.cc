#include "tools/bench/block_order.h"

#include <algorithm>
#include <bit>

#include "offload/check.h"
#include "tools/bench/mixed.h"

namespace kvbed {

BlockOrder::BlockOrder(BlockOrderKind kind, uint64_t blocks, uint64_t seed)
    : kind_(kind), blocks_(blocks), key_(Mixed(seed)) {
  KVBED_CHECK(blocks > 0);
  bits_ = std::max<uint32_t>(static_cast<uint32_t>(std::bit_width(blocks - 1)), 1);
}

uint64_t BlockOrder::At(uint64_t index) const {
  KVBED_CHECK(index < blocks_);
  if (kind_ == BlockOrderKind::kSequential) return index;
  // Shuffles the numbers below a power of two, and walks on from those that are no block's: each
  // walk ends at another block, after two steps on average at most.
  uint64_t value = Shuffled(index);
  while (value >= blocks_) value = Shuffled(value);
  return value;
}

// A bijection on numbers of bits_ bits: products with odd factors and shifts to the right can be
// undone.
uint64_t BlockOrder::Shuffled(uint64_t value) const {
  const uint64_t mask = bits_ >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits_) - 1;
  const uint32_t shift = (bits_ + 1) / 2;
  for (uint32_t round = 0; round < 4; ++round) {
    value = (value ^ (key_ >> round)) & mask;
    value = (value * (Mixed(key_ + round) | 1)) & mask;
    value ^= value >> shift;
  }
  return value;
}

}  // namespace kvbed
