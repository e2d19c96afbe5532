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
};

TEST_F(ExternalCampaignTest, APlugInThatIsRightPassesRacesCrashesAndLimits) {
  UsePlugin(KVBED_TEST_PLUGIN);
  const auto crashes = Run(RunStoreCrashes);
  ExpectPassed(crashes);
  EXPECT_EQ(crashes.front().faults_injected, 30u);
  ExpectPassed(Run(RunStoreRaces));
  ExpectPassed(Run(RunStoreLimits));
}

TEST_F(ExternalCampaignTest, WhatABarePlugInCanNotIsSkippedByName) {
  UsePlugin(KVBED_TEST_PLUGIN_BARE);
  ExpectPassed(Run(RunStoreCrashes));
  const auto races = Run(RunStoreRaces);
  ExpectPassed(races);
  EXPECT_GT(TotalsOf(races).pass, 3u);
  EXPECT_GT(TotalsOf(races).skip, 0u);
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
