// The lock of a store that many processes write at once: writers share it, and only removing
// excludes, the other writers and nobody else. Readers need none.
// It doesn't know what is written or removed.
#pragma once

#include <string>

#include "backends/io.h"
#include "backends/store_lock.h"
#include "offload/status.h"

namespace kvbed {

// Held by whoever removes, beside DIR/LOCK, so that two of them can't wait for each other and a
// writer that failed to be alone can share again.
inline constexpr std::string_view kRemoverLockFileName = "LOCK-REMOVE";

class WriterLock {
 public:
  // Waits for a remover a short while, since opening a store excludes others for as long as it
  // takes to sweep it; then it is an I/O error that names the holder.
  static Result<WriterLock> Share(Io& io, const std::string& directory);

  WriterLock() = default;

  // While it lives, no other process writes or removes.
  class Alone {
   public:
    Alone(Alone&& other) noexcept;
    Alone& operator=(Alone&&) = delete;
    ~Alone();

   private:
    friend class WriterLock;
    Alone(WriterLock* lock, StoreLock remover) : lock_(lock), remover_(std::move(remover)) {}

    WriterLock* lock_;
    StoreLock remover_;
  };

  // Doesn't wait: an I/O error that names another writer, and this one goes on sharing. One at a
  // time; the lock must stay in place.
  Result<Alone> ExcludeOthers(Io& io);

 private:
  WriterLock(StoreLock lock, std::string directory)
      : lock_(std::move(lock)), directory_(std::move(directory)) {}

  StoreLock lock_;
  std::string directory_;
};

}  // namespace kvbed
