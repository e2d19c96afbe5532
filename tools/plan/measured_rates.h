// The rates that `kvbed bench` measured, from its file of rows: how fast a restore read, and how
// fast the same model prefilled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/model_shape.h"
#include "offload/status.h"
#include "tools/plan/plan_request.h"

namespace kvbed {

struct MeasuredRates {
  SourcedValue disk_gb_per_s;                     // restore.gb_per_s
  std::optional<SourcedValue> prefill_tok_per_s;  // ttft.recompute, of a row of this very shape
  std::string no_prefill_reason;                  // when there is none
  std::vector<std::string> left_out;              // lines that are no rows, say one cut off
};

// A file of rows, read once: JSON lines (bench -o jsonl, --out), one list (bench -o json, --json),
// or a pipe of either.
class MeasuredRowFile {
 public:
  // Not found for no file.
  static Result<MeasuredRowFile> Read(const std::string& path);

  // Takes one row for each rate: of this shape before others', then of the context nearest to
  // `ctx_tokens`, then the last one. Never taken for a disk's: rows that failed, that were read
  // through the page cache, and those of a store in memory. The sources name file and line. Not
  // found for no such row, naming the lines and why.
  Result<MeasuredRates> RatesFor(const ModelShape& shape, uint64_t ctx_tokens) const;

 private:
  MeasuredRowFile(std::string path, std::string text)
      : path_(std::move(path)), text_(std::move(text)) {}

  std::string path_, text_;
};

}  // namespace kvbed
