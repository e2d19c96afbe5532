// KV data for a benchmark without a model: seeded, and no 4 KiB page of it equals another, so that
// neither compression nor deduplication answers in the device's place.
#pragma once

#include <cstdint>

#include "offload/aligned_buffer.h"
#include "offload/kv_geometry.h"
#include "offload/sequence.h"
#include "offload/status.h"
#include "tools/bench/kv_source.h"

namespace kvbed {

class SyntheticKv final : public KvSource {
 public:
  static Result<SyntheticKv> Create(const KvGeometry& geometry, uint64_t seed);

  // Fills the payload of each of the sequence's blocks: a random base, with a word stamped into
  // each 4 KiB page that is unique to seed, round, block and page. Rows that hold no token are
  // zero.
  void Fill(Sequence& sequence, uint64_t round) const override;

 private:
  SyntheticKv(const KvGeometry& geometry, uint64_t seed, AlignedBuffer base)
      : geometry_(geometry), seed_(seed), base_(std::move(base)) {}

  KvGeometry geometry_;
  uint64_t seed_;
  AlignedBuffer base_;
};

}  // namespace kvbed
