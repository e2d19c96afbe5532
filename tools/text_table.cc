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

// A bar in a text is no end of its cell.
TextTable Escaped(TextTable table) {
  const auto escape = [](std::string& text) {
    for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
      text.insert(at, 1, '\\');
    }
  };
  for (std::string& title : table.titles) escape(title);
  for (auto& row : table.rows) {
    for (std::string& field : row) escape(field);
  }
  return table;
}

// As wide as the column, so that a terminal shows a table too.
std::string MarkdownLine(const std::vector<std::string>& fields,
                         const std::vector<size_t>& widths) {
  std::string line = fmt::format("| {:<{}} |", fields[0], widths[0]);
  for (size_t i = 1; i < fields.size(); ++i) line += fmt::format(" {:>{}} |", fields[i], widths[i]);
  return line + "\n";
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
  const TextTable escaped = Escaped(*this);
  const std::vector<size_t> widths = Widths(escaped);
  std::string text = MarkdownLine(escaped.titles, widths);
  for (size_t i = 0; i < titles.size(); ++i) {
    const std::string dashes(widths[i] + 1, '-');
    text += i == 0 ? "|-" + dashes + "|" : dashes + ":|";
  }
  text += "\n";
  for (const auto& row : escaped.rows) text += MarkdownLine(row, widths);
  return text;
}

}  // namespace kvbed
