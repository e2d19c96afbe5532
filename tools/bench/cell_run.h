// Measures one cell: repetitions of offload and restore, each followed by its ceilings.
// It prints nothing and judges nothing.
#pragma once

#include <functional>

#include "offload/status.h"
#include "tools/bench/measurement.h"

namespace kvbed {

// Called before each step: ageing, the working set, the warm-up, the repetitions, and their first
// writes. A steady measurement may be done before the last one.
using BenchProgress = std::function<void(uint64_t done, uint64_t total)>;

// An error when the cell can't be measured as it was asked for. Whatever else ends it, an
// interruption too, is in `failure`, with the samples until then; its snapshots are removed then.
Result<Measurement> MeasureCell(const BenchCell& cell, const BenchProgress& progress);

}  // namespace kvbed
