// What a store's handle remembers of a failed sync: nothing later may succeed, since what the
// kernel dropped doesn't come back. Not thread-safe; its owner locks.
#pragma once

#include <string>

#include "backends/manifest_folder.h"
#include "offload/status.h"

namespace kvbed {

class CommitGuard {
 public:
  // `store` is named in messages.
  explicit CommitGuard(std::string store) : store_(std::move(store)) {}

  void NoteSync(const Status& failed) { NoteChange({.status = failed, .settled = false}); }
  // A change that failed and may be there all the same, or that failed for an I/O error.
  void NoteChange(const FolderChange& change);
  // What later flushes and commits answer.
  const Status& status() const { return failure_; }

 private:
  std::string store_;
  Status failure_;
};

}  // namespace kvbed
