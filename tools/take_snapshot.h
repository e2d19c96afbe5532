// Offloading a decoding to a store, and what is told of it.
#pragma once

#include <string>

#include "offload/block_store.h"
#include "offload/manifest.h"
#include "offload/status.h"
#include "tools/run_report.h"
#include "tools/session.h"
#include "tools/store_access.h"

namespace kvbed {

struct SnapshotRequest {
  std::string name;
  bool replace = false;         // a snapshot of that name
  bool kept = true;             // false: in a temporary folder
  uint64_t at_decode_call = 0;  // calls before it
};

struct TakenSnapshot {
  SnapshotReport report;
  Manifest manifest;  // as committed
};

// `store` is the one that `named` names. Nothing is committed when this process was interrupted.
Result<TakenSnapshot> TakeSnapshot(BlockStore& store, const NamedStore& named, Decoding& decoding,
                                   const SnapshotRequest& request);

}  // namespace kvbed
