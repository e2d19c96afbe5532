// Where a benchmark's rows go as soon as there are any: standard output, and the files of --out and
// --json. It doesn't know what a row says; tables are the caller's.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "offload/status.h"
#include "tools/common_options.h"
#include "tools/result_json.h"

namespace kvbed {

class RowWriter {
 public:
  RowWriter(const OutputOptions& output, const std::optional<std::string>& out_file)
      : output_(output), out_file_(out_file) {}

  OutputFormat format() const { return output_.format; }
  bool empty() const { return rows_.empty(); }
  // Appends each row to --out and prints them: as lines of JSON, or `shown` where a format for
  // people was asked for. What was measured is shown, whatever became of the file.
  Status Add(std::span<const Json> rows, const std::string& shown);
  // All rows to --json, and to standard output under -o json.
  Status Finish() const;

 private:
  const OutputOptions output_;
  const std::optional<std::string> out_file_;
  Json rows_ = Json::array();
};

}  // namespace kvbed
