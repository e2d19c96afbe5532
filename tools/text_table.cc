#include "tools/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvbed {
namespace {

std::vector<size_t> Widths(const TextTable& table) {
  std::vector<size_t> widths;
  for (const std::string& title : table.titles) widths.push_back(title.size());
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string MarkdownLine(const std::vector<std::string>& fields) {
  return fmt::format("| {} |\n", fmt::join(fields, " | "));
}

}  // namespace

std::string TextTable::AsText(size_t indent) const {
  const std::vector<size_t> widths = Widths(*this);
  std::string text;
  const auto add = [&](const std::vector<std::string>& fields) {
    text += std::string(indent, ' ') + fmt::format("{:<{}}", fields[0], widths[0]);
    for (size_t i = 1; i < fields.size(); ++i) {
      text += fmt::format("  {:>{}}", fields[i], widths[i]);
    }
    text += "\n";
  };
  add(titles);
  for (const auto& row : rows) add(row);
  return text;
}

std::string TextTable::AsMarkdown() const {
  std::string text = MarkdownLine(titles);
  for (size_t i = 0; i < titles.size(); ++i) text += i == 0 ? "|---|" : "---:|";
  text += "\n";
  for (const auto& row : rows) text += MarkdownLine(row);
  return text;
}

}  // namespace kvbed
