// Measures one cell: repetitions of offload and restore, each followed by its ceilings.
// It prints nothing and judges nothing.
#pragma once

#include <functional>

#include "offload/status.h"
#include "tools/bench/measurement.h"

namespace kvbed {

// Out of space when memory, or the disk with the cell's store, can't hold what the cell needs.
Status CheckCellFits(const BenchCell& cell);

// Called before each step: the warm-up, the repetitions, and their first writes.
using BenchProgress = std::function<void(uint64_t done, uint64_t total)>;

// An error when the cell could not be begun (memory, space, a store that can't be opened) or was
// interrupted. What fails later is in `failure`, with the samples until then.
Result<Measurement> MeasureCell(const BenchCell& cell, const BenchProgress& progress);

}  // namespace kvbed
