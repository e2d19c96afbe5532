// Threads that work on requests which a library answers only synchronously, so that a channel can
// do something else meanwhile. It doesn't know what the work is. One thread adds and takes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "offload/block_store.h"

namespace kvbed {

class RequestWorkers {
 public:
  // `work` finishes all requests that it is given, at most `batch` of them.
  using Work = std::function<void(std::span<StoreRequest* const>)>;
  RequestWorkers(uint32_t threads, uint32_t batch, Work work);
  ~RequestWorkers();  // drops what no thread has begun

  void Add(std::span<StoreRequest* const> requests);
  // Waits until at least `min_complete` are done (fewer when fewer were added), and appends all
  // that are.
  void Take(size_t min_complete, std::vector<StoreRequest*>& completed);

 private:
  void Run();

  const uint32_t batch_;
  const Work work_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable done_;
  bool stop_ = false;
  size_t outstanding_ = 0;  // added and not taken
  std::deque<StoreRequest*> waiting_;
  std::vector<StoreRequest*> finished_;
  std::vector<std::thread> threads_;
};

}  // namespace kvbed
