#include "backends/writer_lock.h"

#include <chrono>
#include <thread>
#include <utility>

namespace kvbed {
namespace {

constexpr int kShareTries = 200;
constexpr std::chrono::milliseconds kSharePause{10};

}  // namespace

Result<WriterLock> WriterLock::Share(Io& io, const std::string& directory) {
  for (int tries = 1;; ++tries) {
    auto lock = StoreLock::Acquire(io, directory, LockMode::kSharedWriters);
    if (lock.ok()) return WriterLock(std::move(*lock), directory);
    if (lock.status().code() != StatusCode::kIoError || tries == kShareTries) return lock.status();
    std::this_thread::sleep_for(kSharePause);
  }
}

WriterLock::Alone::Alone(Alone&& other) noexcept
    : lock_(std::exchange(other.lock_, nullptr)), remover_(std::move(other.remover_)) {}

WriterLock::Alone::~Alone() {
  // Nobody else can be alone while the remover's lock is held, so sharing can't be refused.
  if (lock_ != nullptr) KVBED_CHECK(lock_->lock_.Change(LockMode::kSharedWriters).ok());
}

Result<WriterLock::Alone> WriterLock::ExcludeOthers(Io& io) {
  KVBED_ASSIGN_OR_RETURN(StoreLock remover, StoreLock::Acquire(io, directory_, LockMode::kExclusive,
                                                               kRemoverLockFileName));
  const Status alone = lock_.Change(LockMode::kExclusive);
  if (!alone.ok()) {
    KVBED_RETURN_IF_ERROR(lock_.Change(LockMode::kSharedWriters));
    return alone;
  }
  return Alone(this, std::move(remover));
}

}  // namespace kvbed
