// Shows each row of a benchmark as soon as there is one, and keeps it where it was asked for.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "offload/status.h"
#include "tools/common_options.h"
#include "tools/result_json.h"

namespace kvbed {

class RowWriter {
 public:
  // Both must outlive it. `out_file` gets each row as a line.
  RowWriter(const OutputOptions& output, const std::optional<std::string>& out_file)
      : output_(output), out_file_(out_file) {}

  Status Add(const Json& row);
  // What can be written only as a whole.
  Status Finish() const;

 private:
  Status Show(const Json& row, bool first) const;

  const OutputOptions& output_;
  const std::optional<std::string>& out_file_;
  Json rows_ = Json::array();
};

}  // namespace kvbed
