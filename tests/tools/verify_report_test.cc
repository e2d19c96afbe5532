// What a verification tells: exit codes, text and JSON of the two halves, and the tally of faults.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/exit_code.h"
#include "tools/verify/fault_tally.h"
#include "tools/verify/verify_report.h"

namespace kvbed {
namespace {

CaseResult Case(const char* name, CaseStatus status, const char* reason = "") {
  CaseResult one;
  one.name = name;
  one.status = status;
  one.reason = reason;
  one.replay = "kvbed verify --case x";
  return one;
}

VerifyReport Report(std::vector<CaseResult> self, std::optional<std::vector<CaseResult>> store) {
  VerifyReport report;
  report.header = {"kvbed-verify/1", {"kvbed", "verify"}, 1, 1};
  report.profile = "ci";
  report.result.self_test = std::move(self);
  if (store) {
    report.store = "slab:/data/kv";
    report.result.store_under_test = std::move(*store);
  }
  return report;
}

const CaseResult kPassed = Case("a/b/c/d", CaseStatus::kPass);
const CaseResult kFailed = Case("a/b/c/e", CaseStatus::kFail, "why it failed");
const CaseResult kSkipped = Case("a/b/c/f", CaseStatus::kSkip, "why it was left out");

TEST(VerifyReport, ExitCodesFollowTheHalfThatWasAskedFor) {
  EXPECT_EQ(ExitCodeOf(Report({kPassed, kSkipped}, {})), kExitOk);
  EXPECT_EQ(ExitCodeOf(Report({kPassed, kFailed}, {})), kExitFailedCheck);
  EXPECT_EQ(ExitCodeOf(Report({kSkipped}, {})), kExitNoVerdict);
  EXPECT_EQ(ExitCodeOf(Report({kPassed}, {{kPassed}})), kExitOk);
  EXPECT_EQ(ExitCodeOf(Report({kPassed}, {{kSkipped}})), kExitNoVerdict);
  EXPECT_EQ(ExitCodeOf(Report({kPassed}, std::vector<CaseResult>())), kExitNoVerdict);
  EXPECT_EQ(ExitCodeOf(Report({kPassed}, {{kPassed, kFailed}})), kExitFailedCheck);
  EXPECT_EQ(ExitCodeOf(Report({kFailed}, {{kPassed}})), kExitFailedCheck);
}

TEST(VerifyReport, JsonKeepsTheHalvesApartAndSumsThemInTotals) {
  CaseResult own = kPassed;
  own.faults_injected = 5;
  own.faults_repaired = 2;
  own.faults_found = 3;
  CaseResult theirs = kFailed;
  theirs.faults_injected = 2;
  theirs.faults_found = 1;
  theirs.served_wrong = 1;
  const Json json = VerifyJson(Report({own}, {{theirs}}));
  EXPECT_EQ(json.at("self_test").at("totals").at("faults_detected"), 5);
  EXPECT_EQ(json.at("self_test").at("totals").at("served_wrong"), 0);
  EXPECT_EQ(json.at("store_under_test").at("totals").at("served_wrong"), 1);
  EXPECT_EQ(json.at("totals").at("faults_injected"), 7);
  EXPECT_EQ(json.at("totals").at("faults_detected"), 6);
  EXPECT_EQ(json.at("status"), "failed");
  EXPECT_EQ(json.at("reasons")[0], "a/b/c/e: why it failed");
}

TEST(VerifyReport, TextNamesWhatFailedAndNeverAddsTheHalvesUp) {
  const std::string text = VerifyText(Report({kPassed, kPassed}, {{kPassed, kFailed}}));
  EXPECT_NE(text.find("2 cases: 2 passed"), std::string::npos) << text;
  EXPECT_NE(text.find("2 cases: 1 passed, 1 failed"), std::string::npos) << text;
  EXPECT_EQ(text.find("4 cases"), std::string::npos) << text;
  EXPECT_NE(text.find("FAILED: the store under test"), std::string::npos) << text;
  EXPECT_NE(VerifyText(Report({kFailed}, {{kPassed}})).find("can be trusted"), std::string::npos);
  EXPECT_NE(VerifyText(Report({kPassed}, {{kSkipped}})).find("why it was left out"),
            std::string::npos);
}

TEST(FaultTally, CountsWhatWasRepairedAndWhatWasFound) {
  CaseResult result;
  FaultTally tally(result);
  tally.Repaired();
  tally.Found("an error");
  tally.End();
  EXPECT_EQ(result.status, CaseStatus::kPass);
  EXPECT_EQ(result.faults_injected, 2u);
  EXPECT_EQ(result.faults_repaired + result.faults_found, 2u);
}

TEST(FaultTally, FailsACaseInWhichNoFaultStruck) {
  CaseResult result;
  FaultTally(result).End();
  EXPECT_EQ(result.status, CaseStatus::kFail);
}

TEST(FaultTally, FailsACaseThatServedWrongBytesOrNoticedNothing) {
  GotSnapshot whole;
  whole.report.blocks = whole.report.blocks_restored = 1;
  GotSnapshot wrong = whole;
  wrong.served_wrong = 1;
  wrong.wrong_block = wrong.wrong_byte = 0;
  GotSnapshot unpoisoned = whole;
  unpoisoned.poisoned = false;
  for (const GotSnapshot& got : {wrong, unpoisoned, whole}) {
    CaseResult result;
    FaultTally tally(result);
    tally.Judge(got, false, true);
    EXPECT_TRUE(tally.failed());
    EXPECT_EQ(result.faults_injected, 1u);
    EXPECT_EQ(result.faults_repaired + result.faults_found, 0u);
    EXPECT_EQ(result.served_wrong, got.served_wrong);
  }
  CaseResult result;
  FaultTally tally(result);
  tally.Judge(whole, true, false);
  EXPECT_FALSE(tally.failed());
}

TEST(FaultTally, AFaultThatMustBeRepairedMayNotBeAnError) {
  GotSnapshot refused;
  refused.status = Status::IoError("it is broken");
  CaseResult result;
  FaultTally tally(result);
  tally.Judge(refused, true, false);
  EXPECT_TRUE(tally.failed());
  EXPECT_NE(result.reason.find("it is broken"), std::string::npos);
}

}  // namespace
}  // namespace kvbed
