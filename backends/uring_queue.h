// The I/O queue over io_uring: registered files and buffers, single issuer and deferred task run
// where the kernel has them. liburing stays in the .cc.
#pragma once

#include <memory>

#include "backends/io.h"
#include "offload/status.h"

namespace kvbed {

// Which ring to ask for. Only tests ask for less than the best.
enum class RingFlags { kBest, kNone };

Result<std::unique_ptr<IoQueue>> OpenUringQueue(const IoQueueOptions& options,
                                                RingFlags flags = RingFlags::kBest);

// Ok when this process can have a ring that reads, writes and syncs. Else not supported, with the
// errno, what it comes from (a container's profile, the sysctl, the kernel's age, the memlock
// limit) and what to do about it.
Status ProbeUring();

}  // namespace kvbed
