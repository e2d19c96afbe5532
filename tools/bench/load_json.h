// The parts of a benchmark's row that say under what conditions it was measured: profile, page
// cache, working set, ageing, mix.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/measurement.h"
#include "tools/result_json.h"

namespace kvbed {

std::string_view BenchProfileName(BenchProfile profile);  // "ci", "bench", "steady"
std::string_view CacheStateName(CacheState state);        // "warm", "cold"

// cell.profile and cell.cache_mode.
void SetConditions(Json& cell, const Measurement& measurement);

// aged, working_set, cache, mix, steady and the rounds' rates. `memory_bytes`: this machine's.
void SetLoad(Json& row, const Measurement& measurement, std::optional<uint64_t> memory_bytes);

// Why a row measured under these conditions can't be published.
std::vector<std::string> LoadRemarks(const Measurement& measurement);

}  // namespace kvbed
