// What `kvbed verify` tells: a line for each case while it runs, a summary of the two halves apart,
// and JSON. It doesn't know how a case is run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/status.h"
#include "tools/result_json.h"
#include "verify/case_result.h"

namespace kvbed {

struct VerifyReport {
  ResultHeader header;
  std::string profile;
  std::optional<std::string> store;  // the spec of the store under test
  std::vector<std::string> store_warnings;  // what it can't do, as it says when it is opened
  VerifyResult result;
  std::string environment_path;  // whose filesystem and disk env describes
  uint64_t wall_ns = 0;
  std::optional<std::string> stopped;  // why, when the run ended early
};

// 1 when a case failed; 3 when nothing of the store under test could be assessed, or without one
// nothing at all; else 0.
int ExitCodeOf(const VerifyReport& report);

std::string VerifyText(const VerifyReport& report);
// kvbed-verify/1
Json VerifyJson(const VerifyReport& report);

// Prints cases as they end. Each has a line on a terminal; elsewhere, in a CI job's log, cases of
// one group are counted on one line, and those that fail or are skipped have theirs.
class CaseLines {
 public:
  explicit CaseLines(bool each) : each_(each) {}
  void Add(const CaseResult& one);
  // The last group's line. The first error of any printing.
  Status End();

 private:
  void Print(const std::string& line);
  void EndGroup();

  const bool each_;
  std::string group_;
  CaseTotals totals_;
  uint64_t wall_ns_ = 0;
  Status printed_;
};

}  // namespace kvbed
