// Measures one point of a sweep: timed passes over a file that is there, after a warm-up, each
// followed by fio's where that is wanted. It judges nothing and prints nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/io.h"
#include "offload/bytes.h"
#include "offload/status.h"
#include "tools/bench/byte_proof.h"
#include "tools/bench/fio.h"
#include "tools/bench/page_stamps.h"
#include "tools/bench/raw_transfer.h"
#include "tools/device_counters.h"

namespace kvbed {

struct SweepPointSetup {
  uint32_t iodepth = 0;  // that was asked for
  RawTransfer transfer;  // with the depth that its engine can have
  MutableBytes memory;   // so many blocks of random words
  uint32_t repetitions = 3;
  uint64_t seed = 1;
  PageStamps file_stamps{0, 0};  // that the file's pages bear before a read
  uint64_t first_round = 1;      // of the stamps of a write; each pass takes the next one
  const DeviceCounters* device = nullptr;
  std::optional<FioJob> fio;
  std::string fio_job_file;
};

struct SweepPoint {
  uint64_t blocks = 0;
  uint64_t block_bytes = 0;
  uint32_t repetitions = 0;
  // What was in effect.
  uint32_t iodepth = 0;
  IoQueueInfo queue;
  bool direct = false;
  uint32_t alignment_bytes = 0;

  // One for each timed pass.
  std::vector<uint64_t> samples_ns;
  std::vector<uint64_t> cpu_ns;
  std::vector<uint64_t> stamp_ns;
  std::vector<double> fio_gb_per_s;
  std::string fio_reason;  // why there are none
  std::string fio_job;     // as text that fio runs

  std::vector<uint64_t> latencies_ns;  // of all timed passes
  ByteEvidence bytes;                  // summed over them
  // Of reads: blocks that were in memory when a pass was over, and those without their stamps.
  uint64_t verified_blocks = 0;
  uint64_t wrong_blocks = 0;
  std::optional<double> null_gb_per_s;  // the same without a disk
  Status failure;                       // that ended it early

  uint64_t bytes_each() const { return blocks * block_bytes; }
};

// An error only when it was interrupted. `progress` is called before each pass.
Result<SweepPoint> MeasureSweepPoint(Io& io, const SweepPointSetup& setup,
                                     const std::function<void()>& progress);

}  // namespace kvbed
