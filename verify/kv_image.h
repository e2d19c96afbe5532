// K and V of a sequence as bytes, its copy outside the pool, and the comparison of two of them bit
// by bit with the first difference named. It doesn't know tokens, logits, nor where bytes came
// from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/aligned_buffer.h"
#include "offload/bytes.h"
#include "offload/finding.h"
#include "offload/kv_geometry.h"
#include "offload/sequence.h"
#include "offload/status.h"

namespace kvbed {

// Borrowed K and V of a sequence: valid as long as what it was made from, and until that changes.
struct KvView {
  static KvView Of(const Sequence& sequence);

  KvGeometry geometry;
  SequenceIdentity identity;  // names the blocks in findings
  uint64_t tokens = 0;
  std::vector<Bytes> blocks;  // each the payload, or the payload and its padding
};

// A copy that stays when the sequence grows, is dropped or its pool is poisoned. Move-only.
class KvImage {
 public:
  // Out of space when the system refuses the memory.
  static Result<KvImage> CopyOf(const Sequence& sequence);

  KvView view() const;
  const KvGeometry& geometry() const { return geometry_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t size_bytes() const { return memory_.size_bytes(); }

 private:
  KvGeometry geometry_;
  SequenceIdentity identity_;
  uint64_t tokens_ = 0;
  AlignedBuffer memory_;  // payloads without their padding, one after the other
};

struct KvComparison {
  uint64_t tokens = 0;          // asked for
  uint64_t wanted_bytes = 0;    // K and V of these tokens
  uint64_t compared_bytes = 0;  // of them that were compared; less when blocks were not given
  uint64_t differing_bits = 0;  // rows without a token and padding, which must be zero, included
  // The first difference, by block, then in the payload's order: layer, K before V, head, token,
  // dim. expected and actual are the element's bits as a number, e.g. "0x3f80".
  std::optional<Finding> first;

  bool equal() const { return differing_bits == 0 && compared_bytes == wanted_bytes; }
};

// Compares the first `tokens` tokens of something that arrives block by block with `expected`.
class KvComparer {
 public:
  // `expected` holds at least `tokens` tokens and outlives the comparer. `actual_tokens`, at least
  // `tokens`, is how many the other side has: its rows from there on must be zero.
  KvComparer(const KvView& expected, uint64_t tokens, uint64_t actual_tokens);

  // The payload of block `block`, of which bytes behind payload_bytes() are padding. Any order,
  // each block once. Blocks beyond the last one with a token to compare are ignored.
  void AddBlock(uint64_t block, Bytes payload);

  const KvComparison& result() const { return result_; }

 private:
  // Compares one head's rows, or checks that they are zero when `expected` is empty.
  void CompareRows(uint64_t block, uint64_t offset, Bytes expected, Bytes actual);
  void NoteFirst(uint64_t block, Finding finding);
  Finding FindingAt(uint64_t block, uint64_t payload_offset) const;

  const KvView& expected_;
  const uint64_t actual_tokens_;
  std::vector<bool> seen_;  // by block
  uint64_t first_block_ = 0;
  KvComparison result_;
};

// Both must have one geometry and at least `tokens` tokens; invalid argument otherwise.
Result<KvComparison> CompareKv(const KvView& expected, const KvView& actual, uint64_t tokens);

}  // namespace kvbed
