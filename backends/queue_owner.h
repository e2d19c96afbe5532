// Which thread a queue belongs to, asserted.
#pragma once

#include <thread>

#include "backends/io.h"
#include "offload/status.h"

namespace kvbed {

class QueueOwner {
 public:
  explicit QueueOwner(const IoQueueOptions& options) : lendable_(options.lendable) {}
  void Check() const { KVBED_CHECK(lendable_ || std::this_thread::get_id() == thread_); }

 private:
  const bool lendable_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

}  // namespace kvbed
