// A measured cell of the engine as a row, kvbed-engine/1, and rows as lines of tables.
#pragma once

#include <string>

#include "tools/bench/row_columns.h"
#include "tools/bench_engine/engine_cells.h"
#include "tools/result_json.h"

namespace kvbed {

struct EngineRowContext {
  ResultHeader header;
  Json env;
  Json model;
  uint32_t block_tokens = 16;
  std::string no_peaks_reason;  // when there are none
};

// tok_per_s, gb_per_s and gflop_per_s are of the median sample; the shares are those of the median
// of what the machine gave before and after.
Json EngineRowJson(const EngineMeasurement& measured, const Engine& engine,
                   const EngineRowContext& context);

// "kvbed 0.1.0: CPU, ...; toy, bf16, native (avx512_bf16), 2 threads"
std::string EngineHeadLine(const Json& row);
RowColumns EngineColumns();
std::string EngineRowText(const Json& row);

}  // namespace kvbed
