// What a cell needs of memory, disk and its store, asked before the first write. It writes nothing.
#pragma once

#include <cstdint>

#include "offload/block_store.h"
#include "offload/status.h"
#include "tools/bench/measurement.h"

namespace kvbed {

// Bytes on the store's filesystem: its snapshots, the ceilings' file, and the store or the file of
// the first write. Ageing takes as much more as there is room for, and at least one snapshot.
// CheckCellFits() was ok.
uint64_t DiskBytesNeeded(const BenchCell& cell);

// Out of space when memory, or the disk with the cell's store, can't hold what the cell needs.
Status CheckCellFits(const BenchCell& cell);

// The same of the open store, whose capacity may be less than the disk's; for a working set, ageing
// and a mix, which are long work before the first figure.
Status CheckStoreRoom(const BenchCell& cell, const StoreInfo& store);

// What ageing fills where there is room: the working set, or 4 times the cell.
uint64_t AgedBytesWanted(const BenchCell& cell);
// What it fills here. CheckStoreRoom() was ok.
uint64_t AgedFillBytes(const BenchCell& cell, const StoreInfo& store);

}  // namespace kvbed
