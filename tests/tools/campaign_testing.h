// Running a campaign of `kvbed verify` in a folder of its own, over a real store or a broken one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/broken_stores.h"
#include "tools/verify/campaigns.h"

namespace kvbed {

using Campaign = Status (*)(const CampaignOptions&, CaseLog&);

class CampaignTest : public ::testing::Test {
 protected:
  CampaignTest() {
    options_.work_folder = dir_ / "work";
    options_.child_command = {KVBED_COMMAND, "verify-child"};
  }

  // A store under test in a folder that nothing else is in; `text` has {} for it.
  void Use(std::string text, StoreOpener opener = OpenAsItIs) {
    if (const size_t at = text.find("{}"); at != text.npos) text.replace(at, 2, store_path());
    options_.store = ParseStoreSpec(text).value();
    options_.open = std::move(opener);
  }
  template <class Broken>
  void UseBroken(const std::string& text) {
    Use(text, OpenBroken<Broken>);
  }
  std::string store_path() const { return dir_ / "store"; }

  std::vector<CaseResult> Run(Campaign campaign, const std::string& only = "", uint64_t seed = 1) {
    CaseLog log({.seed = seed, .only = only, .replay_prefix = "kvbed verify", .on_done = {}});
    EXPECT_OK(campaign(options_, log));
    if (!log.cases().empty()) return log.cases();
    ADD_FAILURE() << "no case was run";
    return {CaseResult{}};
  }

  // All passed, but for those that are skipped with a reason.
  static void ExpectPassed(const std::vector<CaseResult>& cases) {
    for (const CaseResult& one : cases) {
      EXPECT_NE(one.status, CaseStatus::kFail) << one.name << ": " << one.reason;
      EXPECT_EQ(one.served_wrong, 0u) << one.name;
      EXPECT_EQ(one.faults_injected, one.faults_repaired + one.faults_found) << one.name;
    }
  }
  // The first that failed, with `part` in its reason.
  static void ExpectReported(const std::vector<CaseResult>& cases, std::string_view part) {
    const auto failed = std::ranges::find_if(
        cases, [](const CaseResult& one) { return one.status == CaseStatus::kFail; });
    ASSERT_NE(failed, cases.end()) << "nothing was reported";
    EXPECT_NE(failed->reason.find(part), std::string::npos)
        << failed->name << ": " << failed->reason;
  }
  static uint64_t Wrong(const std::vector<CaseResult>& cases) {
    return TotalsOf(cases).served_wrong;
  }

  TempDir dir_;
  CampaignOptions options_;
};

}  // namespace kvbed
