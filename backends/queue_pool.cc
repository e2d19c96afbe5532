#include "backends/queue_pool.h"

#include <algorithm>
#include <utility>

namespace kvbed {

QueuePool::Loan::~Loan() {
  if (lent_ == nullptr) return;
  pool_->ChangeInFlight(std::exchange(in_flight_, 0), 0);
  const bool usable = !broken_ && lent_->queue->outstanding() == 0;
  pool_->Return(std::move(lent_), usable);
}

void QueuePool::Loan::Submit(std::span<IoRequest* const> requests) {
  lent_->queue->Submit(requests);
  NoteInFlight();
}

Status QueuePool::Loan::Reap(size_t min_complete, std::vector<IoRequest*>& completed) {
  const Status status = lent_->queue->Reap(min_complete, completed);
  if (!status.ok()) broken_ = true;
  NoteInFlight();
  return status;
}

void QueuePool::Loan::NoteInFlight() {
  const auto now = static_cast<uint32_t>(std::min<size_t>(lent_->device_limit, outstanding()));
  pool_->ChangeInFlight(std::exchange(in_flight_, now), now);
}

void QueuePool::ChangeInFlight(uint32_t from, uint32_t to) {
  const uint32_t now = (in_flight_ += to - from);  // unsigned, so a smaller `to` subtracts
  uint32_t most = most_in_flight_;
  while (now > most && !most_in_flight_.compare_exchange_weak(most, now)) {
  }
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
  const IoQueueInfo info = lent->queue->info();
  lent->device_limit = info.engine == IoEngine::kPsync ? 1 : options_.iodepth;
  const std::lock_guard lock(mutex_);
  info_.TakeOver(info);
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
  IoQueueInfo info = info_;
  info.iodepth_achieved = std::max(info.iodepth_achieved, most_in_flight_.load());
  return info;
}

}  // namespace kvbed
