#include "backends/queue_pool.h"

#include <utility>

namespace kvbed {

QueuePool::Loan::~Loan() {
  if (lent_ == nullptr) return;
  const bool usable = !broken_ && lent_->queue->outstanding() == 0;
  pool_->Return(std::move(lent_), usable);
}

Result<QueuePool::Loan> QueuePool::Borrow() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Lent> lent = std::move(idle_.back());
      idle_.pop_back();
      return Loan(this, std::move(lent));
    }
  }
  auto lent = std::make_unique<Lent>();
  KVBED_ASSIGN_OR_RETURN(lent->memory, AlignedBuffer::Allocate(options_.memory_bytes));
  KVBED_ASSIGN_OR_RETURN(lent->queue, io_->OpenQueue({.iodepth = options_.iodepth,
                                                      .memory = lent->memory.bytes(),
                                                      .lendable = true}));
  const std::lock_guard lock(mutex_);
  info_.TakeOver(lent->queue->info());
  return Loan(this, std::move(lent));
}

void QueuePool::Return(std::unique_ptr<Lent> lent, bool usable) {
  IoQueueInfo info = lent->queue->info();
  // Each call counts once, although the queue is lent again.
  info.calls -= std::exchange(lent->calls_counted, info.calls);
  const std::lock_guard lock(mutex_);
  info_.TakeOver(info);
  if (usable) idle_.push_back(std::move(lent));
}

IoQueueInfo QueuePool::info() const {
  const std::lock_guard lock(mutex_);
  return info_;
}

}  // namespace kvbed
