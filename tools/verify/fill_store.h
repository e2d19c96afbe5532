// Fills a store until it refuses a snapshot, and sees that the refusal harmed nothing and that room
// comes back. It doesn't know what limits the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "offload/finding.h"
#include "offload/status.h"
#include "tools/verify/store_opener.h"

namespace kvbed {

inline constexpr uint64_t kFillRecordBytes = 65536;
inline constexpr uint64_t kFillSnapshotBlocks = 4;

struct FillResult {
  Status opened;        // not ok: the store refused to be made under this limit
  uint64_t taken = 0;   // snapshots that were committed
  Status refusal;       // of the one after; ok when `snapshots_max` were taken
  std::string problem;  // what was wrong with the store afterwards; empty for nothing
  std::optional<Finding> finding;
  uint64_t served_wrong = 0;
};

struct FillOptions {
  uint64_t seed = 0;
  uint64_t snapshots_max = 64;
  StoreAccess access = StoreAccess::kCreate;
};

// Takes its snapshots away again where the store lets it.
FillResult FillStore(const StoreOpener& opener, const StoreSpec& spec,
                     const StoreSettings& settings, const FillOptions& options);

}  // namespace kvbed
