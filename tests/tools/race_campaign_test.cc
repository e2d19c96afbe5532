// The race campaign: it passes over the stores in the tree with 8 calling threads, and reports
// stores that tear, mix, go back, or touch the caller's memory too late.
#include <gtest/gtest.h>

#include "tests/tools/campaign_testing.h"

namespace kvbed {
namespace {

class RaceCampaignTest : public CampaignTest {
 protected:
  template <class Broken>
  std::vector<CaseResult> RunBroken(const std::string& only) {
    UseBroken<Broken>("memory:");
    return Run(RunStoreRaces, only);
  }
};

TEST_F(RaceCampaignTest, EveryStoreOfTheTreeStandsEightThreads) { ExpectPassed(Run(RunRaces)); }

TEST_F(RaceCampaignTest, AStoreUnderTestIsSkippedByNameWhereItLacksSomething) {
  Use("memory:");
  const auto cases = Run(RunStoreRaces);
  ExpectPassed(cases);
  const auto skipped = [&](const std::string& name) {
    return std::ranges::any_of(cases, [&](const CaseResult& one) {
      return one.name == name && one.status == CaseStatus::kSkip && !one.reason.empty();
    });
  };
  EXPECT_TRUE(skipped("store/race/two_processes"));
  EXPECT_TRUE(skipped("store/race/reopen_under_load"));
  EXPECT_FALSE(skipped("store/race/overwrite"));
}

TEST_F(RaceCampaignTest, OtherBytesAreReported) {
  for (const char* only : {"store/race/read_while_written", "store/race/overwrite",
                           "store/race/remove_during_get", "store/race/eviction"}) {
    SCOPED_TRACE(only);
    const auto cases = RunBroken<FlipsABit>(only);
    ExpectReported(cases, "");
    EXPECT_GT(Wrong(cases), 0u);
    EXPECT_TRUE(cases.front().finding.has_value());
  }
}

TEST_F(RaceCampaignTest, AMixtureAndAnOlderStateAreReported) {
  ExpectReported(RunBroken<MixesTwoSnapshots>("store/race/overwrite"), "mixture");
  ExpectReported(RunBroken<ServesOldStates>("store/race/overwrite"), "older state");
}

TEST_F(RaceCampaignTest, MemoryTouchedTooLateIsReported) {
  const auto read = RunBroken<ReadsTheCallersMemoryLate>("store/race/scribbled_buffers");
  ExpectReported(read, "written over after its put");
  EXPECT_GT(Wrong(read), 0u);
  const auto written = RunBroken<WritesTheCallersMemoryLate>("store/race/scribbled_buffers");
  ExpectReported(written, "");
  EXPECT_GT(Wrong(written), 0u);
}

TEST_F(RaceCampaignTest, WhatIsLostWhenAStoreIsReopenedIsReported) {
  UseBroken<LosesASnapshotWhenReopened>("slab:{}?direct=optional");
  ExpectReported(Run(RunStoreRaces, "store/race/reopen_under_load"), "no snapshot");
}

TEST_F(RaceCampaignTest, ASecondProcessThatLosesSnapshotsIsReported) {
  // The store's own lock refuses the second one; what is lost shows when it is opened again.
  UseBroken<LosesASnapshotWhenReopened>("slab:{}?direct=optional");
  ExpectReported(Run(RunStoreRaces, "store/race/two_processes"), "gone");
}

}  // namespace
}  // namespace kvbed
