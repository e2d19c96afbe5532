// Reads a snapshot's records in order, a bounded number at a time, each verified as it is at a
// restore. What fails is a finding and never data. It doesn't know what its reader does with them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "offload/aligned_buffer.h"
#include "offload/block_store.h"
#include "offload/finding.h"
#include "offload/manifest.h"
#include "offload/status.h"
#include "tools/common_options.h"

namespace kvbed {

// A record that was read. Its bytes are the reader's, until the next ReadFrom.
struct ReadRecord {
  uint64_t block = 0;
  Bytes bytes;                     // empty when the store has no whole record
  std::optional<Finding> finding;  // then the bytes are not the snapshot's: for looking at only
};

// A store that was opened for reading, and which of its snapshots was named.
struct SnapshotStore {
  std::unique_ptr<BlockStore> store;
  std::string snapshot;
  uint32_t iodepth = 0;
};
// Usage errors for a spec without #NAME, which list the names, and for memory:.
Result<SnapshotStore> OpenSnapshotStore(const StoreOptions& options);

class SnapshotReader {
 public:
  // `manifest`: of the store's. At most `memory_bytes`, and one record at least, are read at a
  // time.
  static Result<SnapshotReader> Open(SnapshotStore store, Manifest manifest, uint64_t memory_bytes);

  const Manifest& manifest() const { return manifest_; }
  BlockStore& store() { return *store_; }
  // Records that are read at a time. They lie one behind the other.
  uint64_t records_at_once() const { return records_at_once_; }

  // Records from `block` on, as many as fit; `block` must be one of the manifest's. An error for
  // what is neither there nor damaged: the store could not be read.
  Result<std::vector<ReadRecord>> ReadFrom(uint64_t block);

 private:
  SnapshotReader(std::unique_ptr<BlockStore> store, Manifest manifest, AlignedBuffer memory,
                 StoreChannel channel, uint64_t records_at_once);
  Result<ReadRecord> Check(const StoreRequest& request, uint64_t block);

  std::unique_ptr<BlockStore> store_;
  Manifest manifest_;
  AlignedBuffer memory_;
  StoreChannel channel_;
  uint64_t records_at_once_;
};

}  // namespace kvbed
