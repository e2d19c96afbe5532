#include "backends/queue_report.h"

#include <string>

namespace kvbed {

void Describe(const IoQueueInfo& queue, StoreInfo& store) {
  store.ioengine = std::string(IoEngineName(queue.engine));
  store.ioengine_reason = queue.engine_reason;
  store.asynchronous = queue.engine == IoEngine::kIoUring;
  store.iodepth_requested = queue.iodepth_requested;
  store.iodepth_achieved = queue.iodepth_achieved;
  store.registered_buffers = queue.registered_buffers;
  store.registered_buffers_reason = queue.registered_buffers_reason;
  store.registered_files = queue.registered_files;
  store.registered_files_reason = queue.registered_files_reason;
  store.ring_flags = queue.ring_flags;
}

}  // namespace kvbed
