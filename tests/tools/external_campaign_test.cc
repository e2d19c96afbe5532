// The campaigns over stores outside kvbed: one that is right passes, what it can't is skipped by
// name, and those that are wrong on purpose are reported.
#include <gtest/gtest.h>

#include "tests/tools/campaign_testing.h"

namespace kvbed {
namespace {

Result<std::unique_ptr<BlockStore>> OpenHosted(std::unique_ptr<Io> io, const StoreSpec& spec,
                                               const StoreOpenOptions& options) {
  StoreOpenOptions hosted = options;
  hosted.plugin_host = KVBED_COMMAND;
  return OpenAsItIs(std::move(io), spec, hosted);
}

class ExternalCampaignTest : public CampaignTest {
 protected:
  void UsePlugin(const char* library, const std::string& broken = "") {
    Use(std::string("plugin:") + library + "?path={}" + (broken.empty() ? "" : "&break=" + broken),
        OpenHosted);
    options_.damage_folder = store_path();
  }
  // These plug-ins take no lock, and two processes at once would meet in their temporary files.
  std::vector<CaseResult> RunRacesOfOneProcess() {
    std::vector<CaseResult> cases;
    for (const char* name : {"read_while_written", "overwrite", "remove_during_get", "eviction",
                             "scribbled_buffers", "reopen_under_load"}) {
      const auto one = Run(RunStoreRaces, std::string("store/race/") + name);
      cases.insert(cases.end(), one.begin(), one.end());
    }
    return cases;
  }
};

TEST_F(ExternalCampaignTest, APlugInThatIsRightPassesRacesCrashesAndLimits) {
  UsePlugin(KVBED_TEST_PLUGIN);
  const auto crashes = Run(RunStoreCrashes);
  ExpectPassed(crashes);
  EXPECT_EQ(crashes.front().faults_injected, 30u);
  ExpectPassed(RunRacesOfOneProcess());
  ExpectPassed(Run(RunStoreLimits, "store/limit/full_filesystem"));
}

TEST_F(ExternalCampaignTest, WhatABarePlugInCanNotIsSkippedByName) {
  UsePlugin(KVBED_TEST_PLUGIN_BARE);
  const auto races = RunRacesOfOneProcess();
  ExpectPassed(races);
  EXPECT_EQ(TotalsOf(races).pass, 4u);
  EXPECT_EQ(TotalsOf(races).skip, 2u);  // eviction, and what it can't remove
}

TEST_F(ExternalCampaignTest, EachVerbIsAskedByItself) {
  UsePlugin(KVBED_TEST_PLUGIN);
  const auto right = Run(RunStoreVerbs);
  ExpectPassed(right);
  EXPECT_EQ(TotalsOf(right).pass, 8u);
  for (const auto& [broken, verb] : {std::pair("short_ids", "whole_ids"),
                                     {"exists_lies", "exists"},
                                     {"list_lacks", "list"},
                                     {"list_invents", "list"},
                                     {"remove_nothing", "remove"},
                                     {"close_fails", "close"},
                                     {"close_crash", "close"}}) {
    SCOPED_TRACE(broken);
    std::filesystem::remove_all(store_path());
    UsePlugin(KVBED_TEST_PLUGIN, broken);
    const auto cases = Run(RunStoreVerbs, std::string("store/verbs/") + verb);
    ASSERT_EQ(cases.size(), 1u);
    EXPECT_EQ(cases[0].status, CaseStatus::kFail) << cases[0].name;
    EXPECT_FALSE(cases[0].reason.empty());
  }
}

TEST_F(ExternalCampaignTest, VerbsThatABarePlugInLacksAreSkippedByName) {
  UsePlugin(KVBED_TEST_PLUGIN_BARE);
  const auto cases = Run(RunStoreVerbs);
  ExpectPassed(cases);
  EXPECT_EQ(TotalsOf(cases).pass, 3u);  // whole_ids, last_put_counts, close
  for (const CaseResult& one : cases) {
    if (one.status != CaseStatus::kSkip) continue;
    EXPECT_NE(one.reason.find("doesn't declare"), std::string::npos) << one.name << one.reason;
  }
  UsePlugin(KVBED_TEST_PLUGIN_BARE, "keep_first");
  const auto kept = Run(RunStoreVerbs, "store/verbs/last_put_counts");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].status, CaseStatus::kFail);
}

TEST_F(ExternalCampaignTest, ALossyPlugInIsNotComparedBitForBit) {
  UsePlugin(KVBED_TEST_PLUGIN_LOSSY);
  for (const Campaign campaign : {RunStoreCrashes, RunStoreRaces, RunStoreDamage, RunStoreLimits}) {
    const auto cases = Run(campaign);
    ASSERT_EQ(cases.size(), 1u);
    EXPECT_NE(cases[0].reason.find("lossy"), std::string::npos) << cases[0].reason;
  }
}

TEST_F(ExternalCampaignTest, APlugInWhoseFlushDoesNothingIsReportedWhenItIsKilled) {
  UsePlugin(KVBED_TEST_PLUGIN, "flush_nothing");
  ExpectReported(Run(RunStoreCrashes), "kvbed-verify-");
}

TEST_F(ExternalCampaignTest, APlugInThatReturnsOtherBytesIsReportedInARace) {
  for (const char* broken : {"flip", "foreign"}) {
    SCOPED_TRACE(broken);
    UsePlugin(KVBED_TEST_PLUGIN, broken);
    const auto cases = Run(RunStoreRaces, "store/race/overwrite");
    ExpectReported(cases, "");
    EXPECT_GT(Wrong(cases), 0u);
    std::filesystem::remove_all(store_path());
  }
}

TEST_F(ExternalCampaignTest, DamageThatAPlugInDoesNotNoticeIsItsFailure) {
  UsePlugin(KVBED_TEST_PLUGIN);
  const auto cases = Run(RunStoreDamage, "store/damage/flip");
  ExpectReported(cases, "wrong bytes");
  EXPECT_GT(Wrong(cases), 0u);
}

}  // namespace
}  // namespace kvbed
