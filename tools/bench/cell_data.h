// The sequences and manifests of one cell: those of its model, or of a shape with seeded data.
// It moves nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "offload/block_pool.h"
#include "offload/manifest.h"
#include "offload/sequence.h"
#include "offload/status.h"
#include "tools/bench/measurement.h"
#include "tools/bench/synthetic_kv.h"

namespace kvbed {

class CellData {
 public:
  // The cell must outlive it.
  static Result<CellData> Create(const BenchCell& cell);

  // Empty, in `pool`, of an identity that the cell's model or shape can be restored into.
  Sequence NewSequence(BlockPool& pool, uint64_t sequence_id) const;
  // A new sequence with so many tokens; synthetic KV of it is unlike any before. Outside every
  // clock.
  Result<Sequence> FilledSequence(BlockPool& pool, uint64_t tokens);
  Manifest NewManifest(const std::string& name, uint64_t tokens) const;

 private:
  explicit CellData(const BenchCell& cell) : cell_(&cell) {}

  const BenchCell* cell_;
  std::optional<SyntheticKv> synthetic_;  // without a model
  uint64_t fills_ = 0;
};

}  // namespace kvbed
