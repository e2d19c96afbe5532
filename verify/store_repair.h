// Drops from a store what a check found to be lost: snapshots with a damaged or missing record, and
// damaged manifests. What could be whole for somebody else stays.
#pragma once

#include <string>
#include <vector>

#include "offload/block_store.h"
#include "offload/status.h"
#include "verify/store_check.h"

namespace kvbed {

struct DroppedSnapshot {
  std::string name;
  std::string why;
};

struct StoreRepair {
  std::vector<DroppedSnapshot> dropped;
  // Found lost before and not now, or that could not be removed: with why they stay.
  std::vector<DroppedSnapshot> kept;
  Status failure;  // of the first that could not be checked or removed, or whose space is not back
};

// `store` is open for writing and nobody else changes it. Each snapshot that `check` found lost is
// checked once more by itself, and removed only if it is lost still. One that can't be stays, and
// the others go on.
StoreRepair RepairStore(BlockStore& store, const StoreCheck& check,
                        const StoreCheckOptions& options);

}  // namespace kvbed
