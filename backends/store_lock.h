// The lock of a store's folder: readers of several processes share it, a writer excludes all
// others. It is taken without waiting and goes with the process, however that ends.
// It doesn't know what the folder holds.
#pragma once

#include <string>

#include "backends/io.h"
#include "offload/status.h"

namespace kvbed {

enum class LockMode { kShared, kExclusive };

class StoreLock {
 public:
  // Locks DIR/LOCK with flock. A lock that is held, by this process too, is an I/O error
  // that names the holder. A writer makes a missing LOCK file and leaves its own name in it; a
  // reader makes one when it may, and needs none in a folder where nobody may make one.
  static Result<StoreLock> Acquire(Io& io, const std::string& directory, LockMode mode);

  StoreLock() = default;

 private:
  explicit StoreLock(File file) : file_(std::move(file)) {}

  File file_;  // closing it unlocks
};

inline constexpr std::string_view kLockFileName = "LOCK";

}  // namespace kvbed
