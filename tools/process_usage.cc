#include "tools/process_usage.h"

#include <sys/resource.h>

#include "tools/block_device.h"

namespace kvbed {
namespace {

uint64_t Nanoseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(time.tv_usec) * 1'000;
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  rusage self{};
  if (::getrusage(RUSAGE_SELF, &self) == 0) {
    usage.cpu_ns = Nanoseconds(self.ru_utime) + Nanoseconds(self.ru_stime);
  }
  if (const auto text = ReadSystemFile("/proc/self/io")) usage.io = ParseProcessIo(*text);
  return usage;
}

}  // namespace kvbed
