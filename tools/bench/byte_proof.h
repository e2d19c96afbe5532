// Whether the bytes that the tool asked for are those that the process and the device moved: the
// proof that storage was measured and no cache. It reads no counter itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/device_counters.h"
#include "tools/system_text.h"

namespace kvbed {

// Sums over the timed sections.
struct ByteEvidence {
  bool direct = false;  // the store's I/O is direct
  ByteCounts app;       // records that the store's requests moved
  std::optional<ByteCounts> process;
  std::optional<ByteCounts> device;
  std::optional<ByteCounts> past_cache;  // NFS: what didn't go through the client's page cache
  CounterSource source = CounterSource::kUnavailable;
  std::string source_reason;  // why it is unavailable
  std::vector<std::string> devices{};
  std::string redundancy;       // storage writes more than it is given by design
  std::string memory{};         // what keeps the data in memory: there is no disk
  std::string weakness{};       // why the device's counters prove too little
  bool process_counts = false;  // `process` counts the bytes of `device` that are this process's
};

// No bytes yet, and what `counters` say of themselves.
ByteEvidence EvidenceBy(const DeviceCounters& counters);

struct ByteVerdict {
  // Device over app; absent where either is not known or nothing was asked for.
  std::optional<double> read_ratio;
  std::optional<double> write_ratio;
  std::optional<double> worse_ratio;  // the one that is farther from 1
  bool other_io = false;              // the device moved more, by whomever
  std::vector<std::string> failures;  // the row fails
  std::vector<std::string> remarks;   // the row can't be published
};

// A ratio below 0.98 fails a direct row: the device's, and where the process's own counters are of
// the same bytes theirs, since a neighbour's I/O makes a device look busy. Above 1.05 it fails when
// at least 1 GiB was asked for and the process moved exactly that, else it is other I/O on the
// device.
ByteVerdict JudgeBytes(const ByteEvidence& evidence);

}  // namespace kvbed
