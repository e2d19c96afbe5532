// What a case comes to when something in it goes wrong. The first failure is the one that is told.
#pragma once

#include <string>
#include <utility>

#include "tools/interrupt.h"
#include "verify/case_result.h"
#include "verify/seeded_snapshot.h"
#include "verify/snapshot_oracle.h"

namespace kvbed {

inline bool Failed(const CaseResult& result) { return result.status == CaseStatus::kFail; }

inline void FailCase(CaseResult& result, std::string reason,
                     const std::optional<Finding>& finding = std::nullopt) {
  if (!result.finding) result.finding = finding;
  if (Failed(result)) return;
  result.status = CaseStatus::kFail;
  result.reason = std::move(reason);
}

// Only of a case in which nothing ran.
inline void SkipCase(CaseResult& result, std::string reason) {
  result.status = CaseStatus::kSkip;
  result.reason = std::move(reason);
}

// Of kvbed's own stores. What ends the verification is returned: no room, or Ctrl-C. What a machine
// doesn't have skips the case, and everything else fails it.
inline Status TakeStatus(CaseResult& result, const Status& status) {
  if (status.code() == StatusCode::kOutOfSpace || IsInterrupted(status)) return status;
  if (status.code() == StatusCode::kNotSupported) {
    SkipCase(result, status.message());
  } else if (!status.ok()) {
    FailCase(result, status.message());
  }
  return Status::Ok();
}

// Returns whether it is as it must be.
inline bool TakeVerdict(CaseResult& result, const OracleVerdict& verdict,
                        const std::string& context) {
  if (verdict.ok()) return true;
  result.served_wrong += verdict.served_wrong;
  FailCase(result, context + ": " + verdict.problem, verdict.finding);
  return false;
}

}  // namespace kvbed
