// Restores of seeded snapshots in a fresh process: one child of this program opens the store and
// restores them one after another, decodes on, and sends what it has. It judges nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/store_spec.h"
#include "offload/bytes.h"
#include "offload/offloader.h"
#include "offload/status.h"
#include "tools/resumed_process.h"

namespace kvbed {

// Tokens that are decoded after a seeded snapshot is restored: some of the tail block and, where
// blocks are small, further ones.
inline constexpr uint64_t kDecodedAfter = 5;

// The child's side: the store is open for reading, a report goes to `fd` for each name.
Status SendRestoredSnapshots(const StoreSpec& spec, const StoreSettings& settings,
                             std::span<const std::string> names, int fd);

// What the child says of one snapshot, after its blocks.
struct FreshRestore {
  Status status;          // of the restore as a whole, e.g. of reading the manifest
  bool poisoned = false;  // the pool held nothing but poison before
  RestoreReport report;
};

struct FreshReceiver {
  std::function<void(size_t snapshot, ResumeStage stage, uint64_t block, Bytes payload)> on_block;
  std::function<void(size_t snapshot, FreshRestore restore)> on_snapshot;
};

// Snapshots are told in the order of `names`. An error when the child can't be started or dies.
Status RestoreInFreshProcess(const StoreSpec& spec, const StoreSettings& settings,
                             std::span<const std::string> names, const FreshReceiver& receiver);

}  // namespace kvbed
