// Rows of a benchmark for people: a paragraph each, or lines of a Markdown or CSV table.
// It reads rows as they are in result files and knows no measurement.
#pragma once

#include <string>

#include "tools/bench/row_columns.h"
#include "tools/result_json.h"

namespace kvbed {

std::string BenchRowText(const Json& row);

// "kvbed 0.1.0: <CPU>, 2 CPUs, 24 GiB, Linux ..., ext4 on vda, ...", from a row.
std::string BenchEnvironmentLine(const Json& row);

RowColumns BenchColumns();
// A list entry with the row's reasons, for below the table; empty where it has none.
std::string BenchMarkdownNote(const Json& row);

}  // namespace kvbed
