// Judges what a sweep measured and makes rows of kvbed-sweep/1 of it, with the names that are fixed
// for scripts. It measures nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/result_json.h"
#include "tools/sweep/sweep_run.h"

namespace kvbed {

struct SweepRows {
  std::vector<Json> rows;  // one for each depth
  bool failed_check = false;
  bool failed_io = false;
  bool publishable = true;  // all of them
};

struct SweepRowContext {
  std::vector<std::string> argv;
  uint64_t started_unix_ns = 0;
  Json env;  // EnvironmentJson
};

SweepRows MakeSweepRows(const SweepSettings& settings, const SweepGroupResult& group,
                        const SweepRowContext& context);

}  // namespace kvbed
