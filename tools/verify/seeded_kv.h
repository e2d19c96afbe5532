// A sequence filled with seeded K and V, token by token, as a model would fill it: the KV of a
// verification that needs no model. It doesn't know stores.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "offload/block_pool.h"
#include "offload/kv_geometry.h"
#include "offload/manifest.h"
#include "offload/sequence.h"
#include "offload/status.h"

namespace kvbed {

// The model that seeded KV says it is of.
ModelDigests SeededModel();
SequenceIdentity SeededIdentity(uint64_t sequence_id);

// A pool for so many tokens, poisoned.
Result<std::unique_ptr<BlockPool>> MakePoisonedPool(const KvGeometry& geometry, uint64_t tokens);

// Whether every free record of the pool holds poison, so that memory can't answer for a store.
bool AllPoisoned(const BlockPool& pool);

enum class SeededValues {
  kAnyBits,  // NaNs, infinities and denormals among them
  kFinite,   // 0.5 to 1.99, either sign: for stores that may round
};

// Writes K and V of the positions from the cache's end up to `tokens`. Each element is a function
// of the sequence's id, its place and its position alone.
Status GrowSeeded(Sequence& sequence, uint64_t tokens,
                  SeededValues values = SeededValues::kAnyBits);

// A manifest of the sequence as it is, with a pending token, to be offloaded under `name`.
Manifest DescribeSeeded(const Sequence& sequence, const std::string& name);

// A sequence in a pool of its own.
class SeededKv {
 public:
  // Empty, with room for `tokens_max` tokens. `sequence_id` is not 0.
  static Result<SeededKv> Create(const KvGeometry& geometry, uint64_t sequence_id,
                                 uint64_t tokens_max);
  SeededKv(SeededKv&&) noexcept = default;

  Status GrowTo(uint64_t tokens, SeededValues values = SeededValues::kAnyBits) {
    return GrowSeeded(*sequence_, tokens, values);
  }
  Sequence& sequence() { return *sequence_; }
  BlockPool& pool() { return *pool_; }
  // The records of the blocks as they are in the pool: after an offload, what was put.
  std::vector<std::vector<std::byte>> Records() const;

 private:
  SeededKv(std::unique_ptr<BlockPool> pool, uint64_t sequence_id)
      : pool_(std::move(pool)),
        sequence_(std::make_unique<Sequence>(*pool_, SeededIdentity(sequence_id))) {}

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<Sequence> sequence_;
};

}  // namespace kvbed
