// The order in which a pass visits the blocks of a file: each one once, from the first to the last
// or by a seeded shuffle. It takes no memory, however many there are.
#pragma once

#include <cstdint>

namespace kvbed {

enum class BlockOrderKind : uint8_t { kSequential, kRandom };

class BlockOrder {
 public:
  BlockOrder(BlockOrderKind kind, uint64_t blocks, uint64_t seed);

  // The block that is the `index`th to be visited; `index` is below the number of blocks.
  uint64_t At(uint64_t index) const;

 private:
  uint64_t Shuffled(uint64_t value) const;

  BlockOrderKind kind_;
  uint64_t blocks_;
  uint64_t key_;
  uint32_t bits_ = 0;  // the smallest number of them that holds every block's number
};

}  // namespace kvbed
