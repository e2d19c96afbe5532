// A sweep's rows for people: a line of environment, then for each engine a table of GB/s, block
// size down and queue depth across, and the knees. It reads rows as they are in result files.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/result_json.h"

namespace kvbed {

enum class SweepTableStyle { kText, kMarkdown };

class SweepTable {
 public:
  explicit SweepTable(SweepTableStyle style) : style_(style) {}

  // What is to be printed when a group, a row for each depth, is done.
  std::string Group(std::span<const Json> rows);
  // After the last group: the knees of the last table.
  std::string End();

 private:
  std::string Heading(const Json& row) const;
  std::string Head(std::span<const Json> rows) const;
  std::string Line(const std::vector<std::string>& cells) const;
  void Note(std::span<const Json> rows);

  const SweepTableStyle style_;
  bool began_ = false;
  std::string heading_;             // of the table that is being printed
  std::vector<std::string> knees_;  // below it
  std::vector<std::string> notes_;  // why its rows failed or can't be published, each once
};

std::string SweepCsvHead();
std::string SweepCsvLine(const Json& row);

}  // namespace kvbed
