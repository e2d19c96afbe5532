// A copy of a sequence's KV outside the pool, to compare a restored or recomputed cache with bit
// for bit. It doesn't know stores, tokens or logits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "offload/bytes.h"
#include "offload/finding.h"
#include "offload/kv_geometry.h"
#include "offload/sequence.h"
#include "verify/kv_view.h"

namespace kvbed {

// What comparing KV with an image gave. Add up the results of several blocks with Merge.
struct KvComparison {
  uint64_t compared_bytes = 0;  // whole payloads: KV of the tokens, and rows without one, as zero
  uint64_t differing_bits = 0;
  // The first difference in block, then payload order, with layer, K or V, head, token, dim and
  // both elements in hexadecimal, as they lie in memory.
  std::optional<Finding> first;

  void Merge(const KvComparison& other);
  bool equal() const { return differing_bits == 0; }
};

// The payloads of the blocks of one sequence at one moment.
class KvImage {
 public:
  static KvImage CopyOf(const Sequence& sequence);

  const KvGeometry& geometry() const { return geometry_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t blocks() const { return geometry_.BlocksFor(tokens_); }
  Bytes payload(uint64_t block) const;
  KvView view() const;
  // What compared_bytes is when every block of the first `tokens` tokens was compared.
  uint64_t ComparedBytesFor(uint64_t tokens) const {
    return geometry_.BlocksFor(tokens) * geometry_.payload_bytes();
  }

  // Compares a block's payload with the image as it was when only the first `tokens` tokens were
  // cached: rows of later tokens must be zero, and so must what lies behind the payload, the
  // record's padding, where it is given too. `tokens` is at most tokens(); the block must hold one.
  KvComparison CompareBlock(uint64_t block, Bytes payload, uint64_t tokens) const;

  // All blocks of a sequence with their padding. It may have fewer tokens than the image but no
  // more; its geometry must be the image's.
  KvComparison Compare(const Sequence& sequence) const;

 private:
  Finding FindingAt(uint64_t block, uint64_t record_offset, uint64_t tokens) const;

  KvGeometry geometry_;
  SequenceIdentity identity_;  // names the blocks in findings
  uint64_t tokens_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace kvbed
