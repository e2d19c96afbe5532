// Rows of results as lines of a Markdown or a CSV table, each column the field at a JSON pointer.
// It knows no kind of row.
#pragma once

#include <span>
#include <string>

#include "tools/result_json.h"

namespace kvbed {

struct RowColumn {
  const char* title;  // Markdown; null: in CSV only
  const char* name;   // CSV
  const char* path;   // in the row
  int digits = -1;    // in Markdown, as FieldText takes them
};

struct RowColumns {
  std::span<const RowColumn> columns;

  std::string MarkdownHead() const;
  std::string MarkdownLine(const Json& row) const;
  std::string CsvHead() const;
  std::string CsvLine(const Json& row) const;
};

}  // namespace kvbed
