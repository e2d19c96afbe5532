// What this process has used so far: processor time of all its threads, and bytes of storage I/O.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/system_text.h"

namespace kvbed {

struct ProcessUsage {
  uint64_t cpu_ns = 0;           // user and system, all threads
  std::optional<ByteCounts> io;  // of /proc/self/io; absent where that can't be read
};

ProcessUsage ReadProcessUsage();

}  // namespace kvbed
