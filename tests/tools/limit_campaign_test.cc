// The limits: the stores in the tree refuse what doesn't fit and go on afterwards; stores that
// swallow or drop records are reported.
#include <gtest/gtest.h>

#include "tests/tools/campaign_testing.h"

namespace kvbed {
namespace {

class LimitCampaignTest : public CampaignTest {};

TEST_F(LimitCampaignTest, StoresOfTheTreeRefuseWhatDoesNotFit) {
  for (const char* spec : {"slab:{}?direct=optional", "files:{}?direct=optional"}) {
    SCOPED_TRACE(spec);
    Use(spec);
    const auto cases = Run(RunStoreLimits);
    ExpectPassed(cases);
    EXPECT_EQ(cases.size(), 3u);
    EXPECT_EQ(cases[0].faults_found, 1u);
    std::filesystem::remove_all(store_path());
  }
}

TEST_F(LimitCampaignTest, WhatCanNotBeLimitedIsSkippedByName) {
  Use("memory:");
  for (const CaseResult& one : Run(RunStoreLimits)) {
    EXPECT_EQ(one.status, CaseStatus::kSkip) << one.name;
    EXPECT_FALSE(one.reason.empty());
  }
  // Each record in a file of its own.
  Use("files:{}?direct=optional");
  const auto cases = Run(RunStoreLimits, "store/limit/file_size");
  EXPECT_NE(cases.front().reason.find("grew to"), std::string::npos) << cases.front().reason;
}

TEST_F(LimitCampaignTest, AStoreThatSwallowsOrDropsRecordsIsReported) {
  UseBroken<SwallowsWhatDoesntFit>("slab:{}?direct=optional");
  ExpectReported(Run(RunStoreLimits, "store/limit/capacity"), "");
  std::filesystem::remove_all(store_path());
  UseBroken<EvictsWhatWasCommitted>("slab:{}?direct=optional");
  ExpectReported(Run(RunStoreLimits, "store/limit/capacity"), "gone");
}

}  // namespace
}  // namespace kvbed
