// Moves all of a cell, round after round through its pool: one snapshot set to a store, or back and
// verified. It counts and times; which set, and whether the figures are kept, is the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "offload/block_pool.h"
#include "offload/finding.h"
#include "offload/manifest.h"
#include "offload/status.h"
#include "tools/bench/byte_proof.h"
#include "tools/bench/cell_data.h"
#include "tools/bench/load_mover.h"
#include "tools/bench/load_shape.h"
#include "tools/bench/measurement.h"
#include "tools/device_counters.h"

namespace kvbed {

// The snapshots that hold a cell's whole context, by round and part.
using SnapshotSet = std::vector<std::vector<Manifest>>;

struct OffloadedSet {
  SnapshotSet set;
  OffloadSample sample;  // times are sums over the rounds
  ByteEvidence bytes;    // writes of the timed sections
  std::vector<uint64_t> latencies_ns;
  double duplicate_pages_percent = 0;  // of its first part
};

struct RestoredSet {
  RestoreSample sample;
  ByteEvidence bytes;  // reads of the timed sections
  std::vector<uint64_t> latencies_ns;
  std::vector<Finding> findings;
  uint64_t verified_blocks = 0;
  Status failed_read;  // the first record that could not be read; it ends the restore
};

class SetMover {
 public:
  // All must outlive it.
  SetMover(const LoadShape& shape, CellData& data, BlockPool& pool, const DeviceCounters& device)
      : shape_(shape), data_(data), pool_(pool), device_(device) {}

  using PartName = std::function<std::string(uint64_t part)>;
  // The pool is filled with new data outside the clock.
  Result<OffloadedSet> Offload(LoadMover& mover, const PartName& name, bool sync);
  // Into poisoned memory.
  Result<RestoredSet> Restore(LoadMover& mover, const SnapshotSet& set);

 private:
  Status OffloadRound(LoadMover& mover, const std::vector<LoadPart>& round, bool sync,
                      const PartName& name, uint64_t& number, OffloadedSet& out);
  Status RestoreRound(LoadMover& mover, const std::vector<LoadPart>& round,
                      const std::vector<Manifest>& manifests, RestoredSet& out);

  const LoadShape& shape_;
  CellData& data_;
  BlockPool& pool_;
  const DeviceCounters& device_;
};

}  // namespace kvbed
