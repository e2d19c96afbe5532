// Restores while another snapshot of the same size is offloaded at a stated rate.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "offload/block_store.h"
#include "offload/status.h"
#include "tools/bench/measurement.h"

namespace kvbed {

struct MixTools {
  const BenchCell& cell;
  BlockStore& store;
  std::string beside_name;      // of the other snapshot
  uint64_t beside_records = 0;  // of its pool: it is no larger than this
  std::function<Result<RestoreSample>()> restore;
};

// As many restores as the cell has repetitions. Times and what was offloaded are added to
// `samples`.
Status RunMix(const MixTools& tools, MixSamples& samples);

}  // namespace kvbed
