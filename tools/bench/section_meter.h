// What a timed section used, by the process's and the device's own counters. It judges nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/bench/byte_proof.h"
#include "tools/device_counters.h"
#include "tools/process_usage.h"

namespace kvbed {

class SectionMeter {
 public:
  // The section begins. `device` must outlive it.
  explicit SectionMeter(const DeviceCounters& device);

  // CPU time since the start, ns; what was moved is added to `evidence`.
  uint64_t Stop(ByteEvidence& evidence) const;

 private:
  std::optional<ByteCounts> Device() const;

  const DeviceCounters& device_;
  std::optional<ByteCounts> device_before_;
  ProcessUsage before_;
};

// Only the direction that the section is about: the other one is manifests.
enum class Direction { kWrite, kRead };

// A count that is absent in the section is absent in the sum from then on.
void AddDirection(const ByteEvidence& section, Direction direction, ByteEvidence& sum);

}  // namespace kvbed
