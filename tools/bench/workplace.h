// Where a benchmark works: its store, the folder for its files beside the records, and the removal
// of both at the end, however it ends. It measures nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "offload/block_store.h"
#include "offload/status.h"
#include "tools/store_access.h"

namespace kvbed {

class Workplace {
 public:
  // Opens the store for writing. Snapshots and folders that a killed benchmark left in it are
  // removed. With `keep`, nothing is removed at the end.
  static Result<std::unique_ptr<Workplace>> Open(const NamedStore& named, uint64_t record_bytes,
                                                 bool keep);
  // Removes the snapshots and the folder, and the store too when it was made here.
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  BlockStore& store() { return *store_; }
  // The name of the benchmark's snapshot with that number, from 0 on.
  std::string SnapshotName(uint64_t number);
  // The name of a snapshot that its writer removes itself.
  std::string BesideName() const { return snapshot_ + "-beside"; }
  // Frees the slots of `count` of its snapshots, from number `first` on, where there are such.
  Status RemoveSnapshots(uint64_t first, uint64_t count);
  // Even with `keep`: what was begun can't be finished.
  void RemoveAtEnd() { keep_ = false; }

  // For files on the store's own filesystem; empty for a store without files.
  const std::string& folder() const { return folder_; }

 private:
  Workplace(const NamedStore& named, bool keep) : named_(named), keep_(keep) {}
  Status SweepLeftovers();

  NamedStore named_;
  bool keep_;
  bool made_store_ = false;            // there was nothing before
  bool made_folder_of_store_ = false;  // not even the folder
  std::unique_ptr<BlockStore> store_;
  std::string snapshot_;    // what their names begin with
  uint64_t snapshots_ = 0;  // that were named, at most
  std::string folder_;
};

}  // namespace kvbed
