// Reads rows of results from files: what `bench` and `sweep` wrote with -o jsonl or json.
// It knows how a row begins, and none of its figures.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "offload/status.h"
#include "tools/result_json.h"

namespace kvbed {

// What one page can show and a browser open.
inline constexpr uint64_t kReportRowsMax = 10000;

struct ReportRows {
  Json rows = Json::array();  // {file, line, row}
  // "rows.jsonl line 7: ...", one for each thing that was left out.
  std::vector<std::string> left_out;
};

// Adds the rows of a file's text: an object a line, or one list of objects. What is no row, or of
// another schema, is named in left_out. An error when there are more rows than a page can show.
Status AddReportRows(const std::string& file, std::string_view text, ReportRows& rows);

// The rows of all files, in order. Not found, an I/O error, or corruption when a file is larger
// than it may be; corruption when no file has a row, naming what was left out first.
Result<ReportRows> ReadReportRows(const std::vector<std::string>& files);

}  // namespace kvbed
