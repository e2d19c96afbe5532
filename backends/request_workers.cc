#include "backends/request_workers.h"

#include <algorithm>
#include <utility>

namespace kvbed {

RequestWorkers::RequestWorkers(uint32_t threads, uint32_t batch, Work work)
    : batch_(batch), work_(std::move(work)) {
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

RequestWorkers::~RequestWorkers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  added_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RequestWorkers::Add(std::span<StoreRequest* const> requests) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), requests.begin(), requests.end());
    outstanding_ += requests.size();
  }
  added_.notify_all();
}

void RequestWorkers::Take(size_t min_complete, std::vector<StoreRequest*>& completed) {
  std::unique_lock lock(mutex_);
  const size_t wanted = std::min(min_complete, outstanding_);
  done_.wait(lock, [&] { return finished_.size() >= wanted; });
  completed.insert(completed.end(), finished_.begin(), finished_.end());
  outstanding_ -= finished_.size();
  finished_.clear();
}

void RequestWorkers::Run() {
  std::vector<StoreRequest*> batch;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      finished_.insert(finished_.end(), batch.begin(), batch.end());
      if (!batch.empty()) done_.notify_all();
      batch.clear();
      added_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      const size_t count = std::min<size_t>(batch_, waiting_.size());
      batch.assign(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
    }
    work_(batch);
  }
}

}  // namespace kvbed
