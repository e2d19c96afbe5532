#include "tools/bench/row_columns.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "tools/bench/row_fields.h"
#include "tools/csv_field.h"

namespace kvbed {
namespace {

// A bar in a text is no end of its cell.
std::string MarkdownText(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

}  // namespace

std::string RowColumns::MarkdownHead() const {
  std::string titles = "|", line = "|";
  for (const RowColumn& column : columns) {
    if (column.title == nullptr) continue;
    titles += fmt::format(" {} |", column.title);
    line += column.digits != -1 ? "---:|" : "---|";
  }
  return titles + "\n" + line + "\n";
}

std::string RowColumns::MarkdownLine(const Json& row) const {
  std::string line = "|";
  for (const RowColumn& column : columns) {
    if (column.title == nullptr) continue;
    line += fmt::format(" {} |", MarkdownText(ShownText(row, column.path, column.digits, "")));
  }
  return line + "\n";
}

std::string RowColumns::CsvHead() const {
  std::vector<std::string> names;
  for (const RowColumn& column : columns) names.emplace_back(column.name);
  return fmt::format("{}\n", fmt::join(names, ","));
}

std::string RowColumns::CsvLine(const Json& row) const {
  std::vector<std::string> fields;
  for (const RowColumn& column : columns) {
    fields.push_back(CsvField(FieldText(row, column.path, -1, "")));
  }
  return fmt::format("{}\n", fmt::join(fields, ","));
}

}  // namespace kvbed
