// The I/O queue over pread, pwrite and fdatasync, for systems that refuse io_uring and for a few
// small transfers. One request at a time, each moved while Reap waits for it.
#pragma once

#include <memory>
#include <string>

#include "backends/io.h"
#include "offload/status.h"

namespace kvbed {

// `engine_reason`: why it isn't io_uring, for info().
Result<std::unique_ptr<IoQueue>> OpenPsyncQueue(const IoQueueOptions& options,
                                                std::string engine_reason);

}  // namespace kvbed
