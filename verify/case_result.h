// What a verification found, case by case, in two halves: kvbed's own stores (the self-test) and
// the store that a user names. It doesn't know how a case is run or who reads the result.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "offload/finding.h"

namespace kvbed {

enum class CaseKind : uint8_t {
  kRoundtrip,  // offload, drop, restore, compare
  kFault,      // the same with something broken on purpose
  kRace,       // several callers at once
  kCrash,      // a process or the power gone in the middle
  kControl,    // a check is made blind, or a fault comes through unverified: must be noticed
};
enum class CaseStatus : uint8_t { kPass, kFail, kSkip };

std::string_view CaseKindName(CaseKind kind);        // "roundtrip", "fault", ...
std::string_view CaseStatusName(CaseStatus status);  // "pass", "fail", "skip"

struct CaseResult {
  std::string name;  // unique in its half: "fault/slab/seam/bit_flip/payload/3"
  CaseKind kind = CaseKind::kRoundtrip;
  CaseStatus status = CaseStatus::kPass;
  std::string reason;  // why it failed or was skipped; empty for a pass
  uint64_t seed = 0;
  std::string replay;  // the command that runs this case again
  std::optional<Finding> finding;
  uint64_t wall_ns = 0;

  uint64_t faults_injected = 0;
  uint64_t faults_repaired = 0;  // right bytes all the same
  uint64_t faults_found = 0;     // a typed finding or error, and no data
  uint64_t served_wrong = 0;     // records whose wrong bytes passed for right
};

struct CaseTotals {
  uint64_t cases = 0, pass = 0, fail = 0, skip = 0;
  uint64_t faults_injected = 0, faults_repaired = 0, faults_found = 0, served_wrong = 0;

  uint64_t faults_detected() const { return faults_repaired + faults_found; }
  CaseTotals& operator+=(const CaseTotals& other);
  bool operator==(const CaseTotals&) const = default;
};

CaseTotals TotalsOf(std::span<const CaseResult> cases);

struct VerifyResult {
  std::vector<CaseResult> self_test;
  std::vector<CaseResult> store_under_test;
};

// The two halves as JUnit's XML, each a test suite of its own with its cases' times, reasons and
// replay commands. Any bytes in names and reasons give well-formed UTF-8.
std::string JUnitXml(const VerifyResult& result);

}  // namespace kvbed
