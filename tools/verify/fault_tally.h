// What the injected faults of one case came to: repaired, found, or wrong bytes served. It doesn't
// know how a fault was injected.
#pragma once

#include <cstdint>
#include <string>

#include "tools/verify/snapshot_trial.h"
#include "verify/case_result.h"

namespace kvbed {

class FaultTally {
 public:
  // `result` is the case's, and must outlive the tally.
  explicit FaultTally(CaseResult& result) : result_(result) {}

  // A fault that struck, and the right bytes came all the same.
  void Repaired();
  // One that was told by an error or a finding, with nothing wrong served.
  void Found(const GotSnapshot& got);
  void Found(const std::string& error);
  // Struck, and neither: fails the case. The first reason stands.
  void Undetected(uint64_t served_wrong, const std::string& reason);
  // Something else than the fault's outcome: fails the case.
  void Fail(const std::string& reason);
  // Judges a verified restore after a fault that struck.
  void Judge(const GotSnapshot& got, bool may_be_repaired, bool may_be_found);
  // No fault at all struck: fails the case.
  void End();

  bool failed() const { return result_.status == CaseStatus::kFail; }

 private:
  CaseResult& result_;
};

}  // namespace kvbed
