// What some I/O moved, by the counters that a benchmark's row is proved with.
#pragma once

#include <optional>
#include <string>

#include "tools/bench/byte_proof.h"
#include "tools/device_counters.h"
#include "tools/process_usage.h"

namespace kvbed {

// Counts from its making on. `counters` must outlive it.
class MovedBytes {
 public:
  explicit MovedBytes(const DeviceCounters& counters)
      : counters_(counters), before_(Counts()), process_before_(ReadProcessUsage().io) {}

  // As if a direct store had asked for `app`.
  ByteEvidence Evidence(const ByteCounts& app) const {
    ByteEvidence evidence = EvidenceBy(counters_);
    evidence.direct = true;
    evidence.app = app;
    evidence.device = Difference(before_, Counts());
    evidence.process = Difference(process_before_, ReadProcessUsage().io);
    return evidence;
  }

 private:
  std::optional<ByteCounts> Counts() const {
    const auto counts = counters_.Read();
    return counts.ok() ? std::optional(*counts) : std::nullopt;
  }
  static std::optional<ByteCounts> Difference(const std::optional<ByteCounts>& before,
                                              const std::optional<ByteCounts>& after) {
    if (!before || !after) return std::nullopt;
    return ByteCounts{after->read_bytes - before->read_bytes,
                      after->written_bytes - before->written_bytes};
  }

  const DeviceCounters& counters_;
  std::optional<ByteCounts> before_;
  std::optional<ByteCounts> process_before_;
};

}  // namespace kvbed
