// What a bench would move and where, without doing it.
#pragma once

#include <span>
#include <string>

#include "tools/bench/measurement.h"
#include "tools/result_json.h"

namespace kvbed {

// kvbed-bench-plan/1: {cells[]: {model, ctx_tokens, store, records, record_bytes, stored_bytes,
// moved_bytes_most, disk_bytes, ageing_bytes}, moved_bytes_most}. `moved_bytes_most` is an upper
// bound: the ceilings' traffic is counted as if fio ran each time.
Json BenchPlanJson(std::span<const BenchCell> cells);

// The same for people, a line for each cell.
std::string BenchPlanText(const Json& plan);

}  // namespace kvbed
