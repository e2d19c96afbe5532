// A sweep's rows for people: a line of environment, then for each engine a table of GB/s, block
// size down and queue depth across, and the knees. It reads rows as they are in result files.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/row_columns.h"
#include "tools/result_json.h"

namespace kvbed {

enum class SweepTableStyle { kText, kMarkdown };

class SweepTable {
 public:
  // `subject` says what all rows have in common, in the line of environment.
  SweepTable(SweepTableStyle style, std::string subject)
      : style_(style), subject_(std::move(subject)) {}

  // What is to be printed when a group, a row for each depth, is done.
  std::string Group(std::span<const Json> rows);
  // After the last group: what stands below the last table.
  std::string End();

 private:
  // What is said of some of a table's rows or groups.
  struct Note {
    std::string text;
    std::vector<std::string> about;  // "64k at depth 4", or "64k"
  };

  static void Add(std::vector<Note>& notes, const std::string& text, const std::string& about);
  // `all` is how many a note that holds for everything is about.
  static std::vector<std::string> Texts(const std::vector<Note>& notes, size_t all);
  std::string Head(std::span<const Json> rows) const;
  std::string Line(const std::vector<std::string>& cells) const;
  std::string Section(const char* title, const std::vector<std::string>& items) const;

  const SweepTableStyle style_;
  const std::string subject_;
  bool began_ = false;
  // Of the table that is being printed.
  std::string heading_;
  size_t groups_ = 0;
  size_t points_ = 0;
  std::vector<std::string> knees_;
  std::vector<Note> without_knee_;
  std::vector<Note> reasons_;
};

RowColumns SweepCsvColumns();

}  // namespace kvbed
