// What `run --inject` does to a snapshot: chooses what of it to damage and finds it in the store's
// files. inject.h does the damage itself.
#pragma once

#include <cstdint>
#include <string>

#include "offload/block_store.h"
#include "offload/status.h"
#include "tools/inject.h"

namespace kvbed {

// The name of the earlier state that Injection::kStale needs in the store.
inline constexpr const char* kOlderSnapshotName = "kvbed-inject-older-state";

// Before the work: invalid argument where the damage would reach other snapshots. `spec` names the
// store in the message.
Status CheckInjection(BlockStore& store, Injection injection, const std::string& spec);

// Damages the snapshot `name` as the seed chooses, and says what was done. The earlier state is
// removed from the store.
Result<std::string> DamageSnapshot(BlockStore& store, const std::string& name, Injection injection,
                                   uint64_t seed);

}  // namespace kvbed
