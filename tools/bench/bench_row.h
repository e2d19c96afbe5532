// Judges a measurement and makes it one row of kvbed-bench/1, with the names that are fixed for
// scripts. It measures nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/measurement.h"
#include "tools/bench/ttft_json.h"
#include "tools/result_json.h"

namespace kvbed {

struct BenchRow {
  Json json;
  bool failed_check = false;  // verification, or the ratio of the bytes moved
  bool failed_io = false;
  bool publishable = false;
};

struct BenchRowContext {
  std::vector<std::string> argv;
  uint64_t started_unix_ns = 0;
  std::optional<SmallerContext> smaller;  // the row before of the same shape and store
};

BenchRow MakeBenchRow(const Measurement& measurement, const BenchRowContext& context);

}  // namespace kvbed
