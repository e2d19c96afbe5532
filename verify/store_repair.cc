#include "verify/store_repair.h"

namespace kvbed {
namespace {

bool IsThere(BlockStore& store, const std::string& name) {
  const auto manifest = store.ReadManifest(name);
  return manifest.ok() || manifest.status().code() != StatusCode::kNotFound;
}

void DropIfLost(BlockStore& store, const CheckedSnapshot& found, const StoreCheckOptions& options,
                StoreRepair& repair) {
  const std::string& name = found.summary.name;
  StoreCheckOptions one = options;
  one.snapshot = name;
  one.progress = nullptr;
  const auto again = CheckStore(store, one);
  if (!again.ok()) {
    const bool gone = again.status().code() == StatusCode::kNotFound;
    if (!gone && repair.failure.ok()) repair.failure = again.status();
    repair.kept.push_back({name, gone ? "it was removed meanwhile" : again.status().message()});
    return;
  }
  if (again->snapshots.empty() || !again->snapshots.front().lost) {
    repair.kept.push_back({name, "it was not found damaged when it was checked again"});
    return;
  }
  const Status removed = store.RemoveManifest(name);
  if (!removed.ok() && repair.failure.ok()) repair.failure = removed;
  if (removed.ok() || !IsThere(store, name)) {
    repair.dropped.push_back({name, again->snapshots.front().why});
  } else {
    repair.kept.push_back({name, removed.message()});
  }
}

}  // namespace

// Manifests that can't be read go first: while one is there, no store gives a record's room back,
// since it may name the record.
StoreRepair RepairStore(BlockStore& store, const StoreCheck& check,
                        const StoreCheckOptions& options) {
  StoreRepair repair;
  for (const bool readable : {false, true}) {
    for (const CheckedSnapshot& snapshot : check.snapshots) {
      if (!snapshot.lost || snapshot.summary.status.ok() != readable) continue;
      DropIfLost(store, snapshot, options, repair);
    }
  }
  return repair;
}

}  // namespace kvbed
