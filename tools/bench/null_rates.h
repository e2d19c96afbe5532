// What kvbed does without a disk: the store's own code over an I/O queue that completes at once.
#pragma once

#include <cstdint>
#include <string>

#include "offload/block_pool.h"
#include "offload/status.h"
#include "tools/bench/cell_data.h"
#include "tools/bench/measurement.h"

namespace kvbed {

struct NullRates {
  double write_gb_per_s = 0;
  double read_gb_per_s = 0;
};

// One queue, `tokens` at once. The store is made in `folder`, which must not exist, and removed.
Result<NullRates> MeasureNullRates(const BenchCell& cell, CellData& data, BlockPool& pool,
                                   const std::string& folder, uint64_t tokens);

}  // namespace kvbed
