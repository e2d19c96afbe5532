// Runs a sweep's plan, group by group, on files that it makes and fills first.
// It judges nothing and prints nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/direct_support.h"
#include "backends/io.h"
#include "offload/aligned_buffer.h"
#include "offload/status.h"
#include "tools/device_counters.h"
#include "tools/sweep/sweep_place.h"
#include "tools/sweep/sweep_plan.h"
#include "tools/sweep/sweep_point.h"

namespace kvbed {

struct SweepSettings {
  std::string spec;  // of the store, as it was given
  std::string path;  // the folder that it names
  SweepPlan plan;
  BlockOrderKind order = BlockOrderKind::kSequential;
  uint32_t repetitions = 3;
  uint64_t seed = 1;
  bool fio = false;
  std::optional<std::string> label;
};

struct SweepGroupResult {
  SweepGroup group;
  DirectSupport support;
  std::vector<SweepPoint> points;  // in the order of the plan's depths
  uint64_t huge_page_bytes = 0;    // of the memory
};

// Out of space when the disk or the memory can't hold what the plan needs. Before anything is made.
Status CheckSweepFits(const SweepSettings& settings);

class SweepRun {
 public:
  // Makes the place, and refuses an engine or direct I/O that can't be had. No file is written yet.
  static Result<std::unique_ptr<SweepRun>> Open(const SweepSettings& settings);

  // An error when it was interrupted or a file could not be filled; what fails in a point is in it.
  // `progress` is called before each pass.
  Result<SweepGroupResult> Measure(const SweepGroup& group, const std::function<void()>& progress);

 private:
  explicit SweepRun(const SweepSettings& settings) : settings_(settings) {}
  Status Fill(const SweepGroup& group);
  std::string FileOf(DirectMode mode) const;
  SweepPointSetup SetupOf(const SweepGroup& group, uint32_t iodepth);
  FioJob FioJobOf(const SweepGroup& group, uint32_t iodepth) const;

  const SweepSettings settings_;
  std::unique_ptr<SweepPlace> place_;  // removed when all below is closed
  std::map<IoEngine, std::unique_ptr<Io>> ios_;
  std::map<DirectMode, DirectSupport> supports_;
  std::map<DirectMode, bool> filled_;
  AlignedBuffer memory_;
  DeviceCounters device_;
  std::string fio_reason_;  // why it can't be had
  uint64_t round_ = 1;      // of the stamps; 0 is what fills the files
};

}  // namespace kvbed
