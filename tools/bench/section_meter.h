// What a timed section used: CPU time, and the bytes that the process and the device moved by their
// own counters. It doesn't know what the section was to move.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/bench/byte_proof.h"
#include "tools/device_counters.h"
#include "tools/process_usage.h"

namespace kvbed {

class SectionMeter {
 public:
  // The section starts. `device` must outlive it.
  explicit SectionMeter(const DeviceCounters& device);

  // CPU time of all threads since the start, in ns; what was moved is added to `evidence`, where a
  // count that can't be read becomes absent.
  uint64_t Stop(ByteEvidence& evidence) const;

 private:
  const DeviceCounters& device_;
  std::optional<ByteCounts> device_before_;
  std::optional<ByteCounts> past_cache_before_;
  ProcessUsage before_;
};

// Only the direction that a section is about: the other one is manifests and the like.
enum class Direction { kWrite, kRead };
void AddDirection(const ByteEvidence& section, Direction direction, ByteEvidence& sum);

}  // namespace kvbed
