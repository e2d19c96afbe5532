// Queues with memory of their own, lent to one thread at a time: for code that is called from
// threads which it didn't start. It doesn't know what is moved. Any number of threads may borrow.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/io.h"
#include "offload/aligned_buffer.h"
#include "offload/status.h"

namespace kvbed {

class QueuePool {
  struct Lent {
    AlignedBuffer memory;
    std::unique_ptr<IoQueue> queue;  // after the memory, so that it goes before
    uint64_t calls_counted = 0;
    uint32_t device_limit = 0;  // what it gives to the device at once
  };

 public:
  struct Options {
    uint32_t iodepth = 16;
    uint64_t memory_bytes = 0;  // of each queue, registered where that can be
  };

  // `io` must outlive it.
  QueuePool(Io& io, Options options) : io_(&io), options_(options) {}

  // A borrowed queue. It goes back when nothing is outstanding and it isn't broken; else it is
  // closed, which waits for the device, so that no memory is lent that the device may still touch.
  class Loan {
   public:
    Loan(Loan&& other) noexcept = default;
    Loan& operator=(Loan&&) = delete;
    ~Loan();
    MutableBytes memory() { return lent_->memory.bytes(); }
    // As IoQueue's.
    void Submit(std::span<IoRequest* const> requests);
    Status Reap(size_t min_complete, std::vector<IoRequest*>& completed);
    size_t outstanding() const { return lent_->queue->outstanding(); }
    Status MoveAlone(IoRequest& request) { return kvbed::MoveAlone(*lent_->queue, request); }
    void MarkBroken() { broken_ = true; }

   private:
    friend class QueuePool;
    Loan(QueuePool* pool, std::unique_ptr<Lent> lent) : pool_(pool), lent_(std::move(lent)) {}

    void NoteInFlight();

    QueuePool* pool_;
    std::unique_ptr<Lent> lent_;
    uint32_t in_flight_ = 0;  // as the pool was told last
    bool broken_ = false;
  };

  // Opens a queue when all are lent.
  Result<Loan> Borrow();

  // Of all queues so far, as of their return. The depth achieved is that of all together.
  IoQueueInfo info() const;

 private:
  void Return(std::unique_ptr<Lent> lent, bool usable);
  void ChangeInFlight(uint32_t from, uint32_t to);

  Io* io_;
  const Options options_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Lent>> idle_;
  IoQueueInfo info_;
  std::atomic<uint32_t> in_flight_ = 0;
  std::atomic<uint32_t> most_in_flight_ = 0;
};

}  // namespace kvbed
