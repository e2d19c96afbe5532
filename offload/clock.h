// The two clocks: one for durations, one for dates.
#pragma once

#include <cstdint>

namespace kvbed {

uint64_t MonotonicNs();  // CLOCK_MONOTONIC
uint64_t UnixNs();       // since 1970

}  // namespace kvbed
