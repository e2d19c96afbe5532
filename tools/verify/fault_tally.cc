#include "tools/verify/fault_tally.h"

#include <fmt/format.h>

namespace kvbed {

void FaultTally::Repaired() {
  ++result_.faults_injected;
  ++result_.faults_repaired;
}

void FaultTally::Found(const GotSnapshot& got) {
  ++result_.faults_injected;
  ++result_.faults_found;
  if (!result_.finding && !got.report.findings.empty()) {
    result_.finding = got.report.findings.front();
  }
}

void FaultTally::Found(const std::string& error) {
  if (error.empty()) return Undetected(0, "a fault was told by an error without a message");
  ++result_.faults_injected;
  ++result_.faults_found;
}

void FaultTally::Undetected(uint64_t served_wrong, const std::string& reason) {
  ++result_.faults_injected;
  result_.served_wrong += served_wrong;
  Fail(reason);
}

void FaultTally::Fail(const std::string& reason) {
  if (failed()) return;
  result_.status = CaseStatus::kFail;
  result_.reason = fmt::format("fault {}: {}", result_.faults_injected, reason);
}

void FaultTally::Judge(const GotSnapshot& got, bool may_be_repaired, bool may_be_found) {
  if (!got.poisoned) return Undetected(0, "the memory was not poisoned before the restore");
  if (got.served_wrong > 0 || got.manifest_differs) {
    return Undetected(got.served_wrong + (got.manifest_differs ? 1 : 0),
                      "wrong bytes were served: " + got.Text());
  }
  if (got.whole()) {
    if (may_be_repaired) return Repaired();
    return Undetected(0, "it changed what was stored or read, and nothing was noticed");
  }
  if (may_be_found) return Found(got);
  Undetected(0, "it should have been repaired by trying again: " + got.Text());
}

void FaultTally::End() {
  if (result_.faults_injected == 0) Fail("no fault struck, so nothing was tested");
}

}  // namespace kvbed
