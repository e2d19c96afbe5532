// What a sweep will measure: groups of points that differ in depth only, and what they need of disk
// and memory. It touches neither.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/io.h"
#include "backends/store_spec.h"
#include "offload/status.h"
#include "tools/bench/block_order.h"

namespace kvbed {

enum class SweepOp : uint8_t { kRead, kWrite };
std::string_view SweepOpName(SweepOp op);  // "read", "write"

// Memory and file are registered with the ring, or neither.
enum class Registered : uint8_t { kOn, kOff };

struct SweepEngine {
  IoEngine asked = IoEngine::kAuto;
  IoEngine effective = IoEngine::kIoUring;
};

// As the command line gives them: all combinations are measured.
struct SweepLists {
  std::vector<SweepOp> ops;
  std::vector<SweepEngine> engines;
  std::vector<DirectMode> directs;
  std::vector<Registered> registered;
  std::vector<uint64_t> bs_bytes;
  std::vector<uint64_t> iodepths;
  uint64_t bytes = 0;  // of one point
};

// A curve over queue depth. A point moves as many blocks at each depth, so that only depth differs.
struct SweepGroup {
  SweepOp op = SweepOp::kRead;
  DirectMode direct = DirectMode::kRequired;
  SweepEngine engine;
  Registered registered = Registered::kOn;
  uint64_t bs_bytes = 0;
  uint64_t blocks = 0;

  uint64_t bytes() const { return bs_bytes * blocks; }
};

struct SweepPlan {
  // For each way to open the file: all reads, then all writes, so that reads find what was written
  // first.
  std::vector<SweepGroup> groups;
  std::vector<uint32_t> iodepths;
  std::vector<DirectMode> files;  // a file for each
  SweepGroup largest;             // of the groups: its bytes are those of a file
  uint64_t memory_bytes = 0;      // the largest block times the largest depth

  uint64_t points() const { return groups.size() * iodepths.size(); }
  uint64_t disk_bytes() const { return largest.bytes() * files.size(); }
};

// Invalid argument for an empty list, a value that stands in one twice, a block that is no multiple
// of 4 KiB, and more than can be meant.
Result<SweepPlan> MakeSweepPlan(const SweepLists& lists);

// What all points move with so many timed passes after a warm-up each, and what fills the files
// before. No more than UINT64_MAX.
struct SweepTraffic {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
};
SweepTraffic TrafficOf(const SweepPlan& plan, uint64_t repetitions, bool fio);

}  // namespace kvbed
