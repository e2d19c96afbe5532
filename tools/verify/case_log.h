// The running list of a half's cases: which are wanted, what came of them, and a line for each on a
// terminal. Campaigns write to it; it doesn't know them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/case_result.h"

namespace kvbed {

class CaseLog {
 public:
  struct Options {
    uint64_t seed = 1;          // of the whole verification; each case has its own, from its name
    std::string only;           // a case's name or a prefix of names, for a replay; empty: all
    std::string replay_prefix;  // "kvbed verify --seed 1 --store ...": a case adds its name
    std::function<void(const CaseResult&)> on_done;  // prints its line
  };
  explicit CaseLog(Options options) : options_(std::move(options)) {}

  // Whether a case is to be run: a replay runs one of them.
  bool Wants(std::string_view name) const;
  // Whether any case below this prefix may be wanted, so that what they share needs setting up.
  bool WantsBelow(std::string_view prefix) const;
  // A case about to run: its seed and the command that replays it are set, its clock starts.
  CaseResult Start(std::string name, CaseKind kind) const;
  // Its time, status and line. A name that was there already is a programming error.
  void Finish(CaseResult result);

  bool stopped() const;  // Ctrl-C: campaigns end at the next case
  const std::vector<CaseResult>& cases() const { return cases_; }

 private:
  Options options_;
  std::vector<CaseResult> cases_;
};

}  // namespace kvbed
