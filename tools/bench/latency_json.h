// Latencies of records as a row of a benchmark has them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/result_json.h"

namespace kvbed {

// {p50, p99, p99_9, n}, in ns; null with a reason where there are too few.
Json LatencyJson(const std::vector<uint64_t>& latencies_ns);

}  // namespace kvbed
