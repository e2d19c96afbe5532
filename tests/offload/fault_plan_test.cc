#include "offload/fault_plan.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

constexpr FaultKind kAllKinds[] = {FaultKind::kBitFlip,
                                   FaultKind::kShortTransfer,
                                   FaultKind::kTornWrite,
                                   FaultKind::kMisdirectedRead,
                                   FaultKind::kMisdirectedWrite,
                                   FaultKind::kStaleRecord,
                                   FaultKind::kLostWrites,
                                   FaultKind::kReorderedWrites,
                                   FaultKind::kFailedSync,
                                   FaultKind::kEio,
                                   FaultKind::kEnospc,
                                   FaultKind::kEagain,
                                   FaultKind::kEintr,
                                   FaultKind::kDelay,
                                   FaultKind::kKill};

// Which of ten operations are struck, as a string of . and !
std::string Play(FaultScript& script, FaultTarget operation) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += script.Next(operation) != nullptr ? '!' : '.';
  return text;
}

FaultScript ScriptOf(std::vector<Fault> faults) { return FaultScript({1, std::move(faults)}); }

TEST(FaultPlan, NamesGoBothWays) {
  for (FaultKind kind : kAllKinds) {
    EXPECT_NE(FaultKindName(kind), "unknown");
    EXPECT_EQ(*ParseFaultKind(FaultKindName(kind)), kind);
  }
  EXPECT_TRUE(
      FailsWith(ParseFaultKind("gremlin").status(), StatusCode::kInvalidArgument, "gremlin"));
}

TEST(FaultPlan, StrikesAfterSoManyAndThenSoOften) {
  auto script = ScriptOf({{.kind = FaultKind::kEio, .first = 3, .count = 2}});
  EXPECT_EQ(Play(script, FaultTarget::kRead), "...!!.....");
  EXPECT_EQ(script.struck(), 2u);
  auto forever = ScriptOf({{.kind = FaultKind::kEio, .first = 8, .count = kForever}});
  EXPECT_EQ(Play(forever, FaultTarget::kRead), "........!!");
  auto none = ScriptOf({});
  EXPECT_EQ(Play(none, FaultTarget::kRead), "..........");
}

TEST(FaultPlan, AKillEndsTheProcessAtTheVeryOperation) {
  EXPECT_EXIT(
      {
        auto script = ScriptOf({{.kind = FaultKind::kKill, .target = FaultTarget::kRename}});
        Play(script, FaultTarget::kWrite);
        script.Next(FaultTarget::kRename);
        ::_exit(0);
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(FaultPlan, OnlyMatchingOperationsCount) {
  auto script = ScriptOf({{.kind = FaultKind::kEio, .target = FaultTarget::kWrite, .first = 1}});
  EXPECT_EQ(Play(script, FaultTarget::kRead), "..........");
  EXPECT_EQ(Play(script, FaultTarget::kWrite), ".!........");
  auto any = ScriptOf({{.kind = FaultKind::kBitFlip}});
  EXPECT_EQ(Play(any, FaultTarget::kRename), "..........");  // no bit flips in a rename
  EXPECT_EQ(Play(any, FaultTarget::kWrite), "!.........");
}

TEST(FaultPlan, TheFirstOfTwoFaultsStrikesAndBothCount) {
  auto script = ScriptOf({{.kind = FaultKind::kEio, .first = 1, .count = 1},
                          {.kind = FaultKind::kEnospc, .first = 1, .count = 2}});
  EXPECT_EQ(script.Next(FaultTarget::kWrite), nullptr);
  EXPECT_EQ(script.Next(FaultTarget::kWrite)->kind, FaultKind::kEio);
  EXPECT_EQ(script.Next(FaultTarget::kWrite)->kind, FaultKind::kEnospc);
  EXPECT_EQ(script.Next(FaultTarget::kWrite), nullptr);
}

TEST(FaultPlan, KindsStrikeWhereTheyMakeSense) {
  EXPECT_TRUE(FaultCanStrike(FaultKind::kTornWrite, FaultTarget::kWrite));
  EXPECT_FALSE(FaultCanStrike(FaultKind::kTornWrite, FaultTarget::kRead));
  EXPECT_TRUE(FaultCanStrike(FaultKind::kMisdirectedRead, FaultTarget::kRead));
  EXPECT_FALSE(FaultCanStrike(FaultKind::kMisdirectedRead, FaultTarget::kWrite));
  EXPECT_TRUE(FaultCanStrike(FaultKind::kFailedSync, FaultTarget::kSync));
  EXPECT_FALSE(FaultCanStrike(FaultKind::kFailedSync, FaultTarget::kWrite));
  EXPECT_FALSE(FaultCanStrike(FaultKind::kEnospc, FaultTarget::kRead));
  EXPECT_TRUE(FaultCanStrike(FaultKind::kEnospc, FaultTarget::kAllocate));
  EXPECT_TRUE(FaultCanStrike(FaultKind::kDelay, FaultTarget::kRename));
}

TEST(FaultPlan, ChoicesReplayFromTheSeed) {
  FaultScript a({42, {}}), b({42, {}}), c({43, {}});
  bool differs = false;
  for (int i = 0; i < 20; ++i) {
    const uint64_t choice = a.Choose(1000);
    EXPECT_LT(choice, 1000u);
    EXPECT_EQ(b.Choose(1000), choice);
    differs |= c.Choose(1000) != choice;
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace kvbed
