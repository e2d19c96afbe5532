// A sequence's KV cache in the pool: its block table, how many tokens it caches, and which stored
// record holds each block. It doesn't know tokens' ids or how K and V are computed. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "offload/block_pool.h"
#include "offload/digest.h"
#include "offload/record.h"
#include "offload/record_id.h"
#include "offload/status.h"

namespace kvbed {

struct SequenceIdentity {
  Digest128 model_fingerprint;
  uint64_t rope_identity = 0;
  uint64_t sequence_id = 0;  // RandomId() at the sequence's start, the manifest's after a restore
  bool operator==(const SequenceIdentity&) const = default;
};

// A committed or written record that holds a block as it was with `tokens_used` rows.
struct StoredBlock {
  RecordId id;
  Digest128 digest;
  uint64_t place = 0;
  uint32_t tokens_used = 0;
  Digest128 store_uuid;
  bool operator==(const StoredBlock&) const = default;
};

class Sequence {
 public:
  Sequence(BlockPool& pool, const SequenceIdentity& identity);
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&&) = delete;
  ~Sequence();  // releases its records

  // Makes room for positions below `tokens`, zeroed; all or nothing. Out of space as the pool says.
  Status Reserve(uint64_t tokens);
  // The engine has written K and V of the next `tokens` positions.
  void Advance(uint64_t tokens);

  uint64_t cached_tokens() const { return cached_tokens_; }
  const SequenceIdentity& identity() const { return identity_; }
  const std::vector<uint32_t>& block_table() const { return block_table_; }
  // Blocks that hold a token; block_table() may have more that are reserved.
  uint64_t blocks() const { return pool_->geometry().BlocksFor(cached_tokens_); }
  uint32_t TokensInBlock(uint64_t block) const;
  BlockPool& pool() { return *pool_; }
  const BlockPool& pool() const { return *pool_; }
  MutableBytes payload(uint64_t block) { return pool_->payload(block_table_[block]); }

  // The header that block `block` gets when it is sealed as `generation`.
  RecordHeader HeaderOf(uint64_t block, uint64_t generation) const;

  // The stored record of a block, when it still holds all of the block's rows and lies in the store
  // `store_uuid`.
  std::optional<StoredBlock> StoredAs(uint64_t block, const Digest128& store_uuid) const;
  // The newest generation that any seal of this block has had, 0 for none; a seal whose offload
  // failed counts too, so that its generation is never used again.
  uint64_t LastGeneration(uint64_t block) const;
  void MarkSealed(uint64_t block, uint64_t generation);
  void MarkStored(uint64_t block, const StoredBlock& stored);

  // For a restore: takes over `record` (one reference) as the next block of the table.
  void AdoptBlock(uint32_t record, const StoredBlock& stored);

 private:
  BlockPool* pool_;
  SequenceIdentity identity_;
  uint64_t cached_tokens_ = 0;
  std::vector<uint32_t> block_table_;
  std::vector<StoredBlock> stored_;         // by block; generation 0 is none
  std::vector<uint64_t> last_generations_;  // by block; 0 is none
};

}  // namespace kvbed
