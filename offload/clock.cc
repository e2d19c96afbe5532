#include "offload/clock.h"

#include <ctime>

namespace kvbed {
namespace {

uint64_t Read(clockid_t clock) {
  timespec now;
  ::clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

uint64_t MonotonicNs() { return Read(CLOCK_MONOTONIC); }
uint64_t UnixNs() { return Read(CLOCK_REALTIME); }

}  // namespace kvbed
