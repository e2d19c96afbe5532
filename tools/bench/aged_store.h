// A store as use leaves it: filled, a random half of its snapshots freed, and refilled but for the
// room of what is measured next, which therefore gets places from all over it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "offload/block_pool.h"
#include "offload/block_store.h"
#include "offload/manifest.h"
#include "offload/status.h"
#include "tools/bench/cell_data.h"
#include "tools/bench/load_mover.h"
#include "tools/bench/measurement.h"

namespace kvbed {

struct AgePlan {
  uint64_t snapshot_tokens = 0;  // of each, an eighth of the cell's: what is freed is scattered
  uint64_t snapshot_bytes = 0;
  uint64_t snapshots = 0;
  uint64_t freed = 0;     // half of them
  uint64_t refilled = 0;  // at least half of what was freed
};

// `pool_records`: at most so many are moved at once.
AgePlan PlanAge(const BenchCell& cell, uint64_t fill_bytes, uint64_t pool_records);

struct AgeTools {
  BlockStore& store;
  LoadMover& mover;
  CellData& data;
  BlockPool& pool;
  std::function<std::string(uint64_t number)> name;  // of the snapshots, from 0 on
  std::function<void(const Manifest&)> written;      // called for each
};

// The snapshots that are left stay in the store.
Result<AgedSample> AgeStore(const AgePlan& plan, uint64_t seed, const AgeTools& tools);

}  // namespace kvbed
