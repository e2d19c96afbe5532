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
  EXPECT_EQ(TotalsOf(races).pass, 5u);
  EXPECT_EQ(TotalsOf(races).skip, 1u);
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
