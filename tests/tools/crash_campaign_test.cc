// The crash campaigns: they pass over the stores in the tree, and report stores that lose, mix or
// forget.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/tools/campaign_testing.h"
#include "tools/verify/case_outcome.h"
#include "tools/verify/crash_rounds.h"
#include "tools/verify/small_stores.h"
#include "tools/verify/verify_child.h"

namespace kvbed {
namespace {

constexpr const char* kServe = "serve-verify-jobs";

// The command line of this process, word for word.
std::vector<std::string> OwnArguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return words;
}

// This program as the child process of a campaign, over a broken store.
void ServeOver(const StoreOpener& opener) {
  const std::vector<std::string> words = OwnArguments();
  if (std::ranges::count(words, kServe) == 0) return;  // by itself it has nothing to do
  ::_exit(ServeVerifyJobs(ParseStoreSpec(words.back()).value(), {}, opener));
}
TEST(VerifyChild, AnswersBeforeItCommits) { ServeOver(OpenBroken<AnswersBeforeItCommits>); }
TEST(VerifyChild, RemovesBeforeItReplaces) { ServeOver(OpenBroken<RemovesBeforeItReplaces>); }
TEST(VerifyChild, IsKilledTooLate) {
  // Its files aren't over the device that kills it.
  ServeOver([](std::unique_ptr<Io>, const StoreSpec& spec, const StoreOpenOptions& options) {
    return OpenAsItIs(nullptr, spec, options);
  });
}

class CrashCampaignTest : public CampaignTest {
 protected:
  // The child is this program, over the broken store of this name.
  void BreakTheChild(const std::string& name) {
    options_.child_command = {"/proc/self/exe", "--gtest_filter=VerifyChild." + name, kServe};
  }

  CaseResult Kill(uint64_t rounds = 24) {
    return Play([&](const CrashRounds& crash,
                    CaseResult& result) { return RunKillRounds(options_, crash, result); },
                rounds);
  }
  CaseResult Cut(FaultKind how, uint64_t rounds = 12) {
    return Play([&](const CrashRounds& crash,
                    CaseResult& result) { return RunPowerCutRounds(options_, crash, how, result); },
                rounds);
  }

 private:
  template <class Rounds>
  CaseResult Play(Rounds play, uint64_t rounds) {
    CrashRounds crash;
    crash.spec = *options_.store;
    crash.rounds = rounds;
    crash.operations = 120;
    CaseResult result;
    result.seed = 7;
    EXPECT_OK(play(crash, result));
    return result;
  }
};

TEST_F(CrashCampaignTest, KilledAndCutOffStoresKeepWhatTheyCommitted) {
  const auto cases = Run(RunCrashes, "crash/slab_psync/");
  ExpectPassed(cases);
  ASSERT_EQ(cases.size(), 3u);
  for (const CaseResult& one : cases) EXPECT_EQ(one.faults_injected, 30u) << one.name;
}

TEST_F(CrashCampaignTest, EachStoreOfTheTreeIsKilledAndCutOff) {
  for (const SmallStore& one : SmallFileStores()) {
    SCOPED_TRACE(one.name);
    options_.store = one.SpecIn(store_path(), true);
    if (!IsStoreHere(*options_.store).ok() || one.name == "slab_psync") continue;
    ExpectPassed({Kill(6), Cut(FaultKind::kLostWrites, 1), Cut(FaultKind::kReorderedWrites, 2)});
  }
}

TEST_F(CrashCampaignTest, AStoreUnderTestIsKilledToo) {
  Use("slab:{}?direct=optional");
  const auto cases = Run(RunStoreCrashes);
  ExpectPassed(cases);
  EXPECT_EQ(cases.front().faults_injected, 30u);
  Use("memory:");
  EXPECT_EQ(Run(RunStoreCrashes).front().status, CaseStatus::kSkip);
}

TEST_F(CrashCampaignTest, ALateCommitIsReported) {
  Use("slab:{}?direct=optional");
  BreakTheChild("AnswersBeforeItCommits");
  const CaseResult result = Kill();
  ExpectReported({result}, "kvbed-verify-");
  EXPECT_NE(result.reason.find("killed"), std::string::npos);
}

TEST_F(CrashCampaignTest, AReplaceInTwoStepsIsReported) {
  Use("slab:{}?direct=optional");
  BreakTheChild("RemovesBeforeItReplaces");
  ExpectReported({Kill(120)}, "gone");
}

TEST_F(CrashCampaignTest, AKillThatDoesNotStrikeInTimeStillStrikes) {
  Use("slab:{}?direct=optional");
  BreakTheChild("IsKilledTooLate");
  const CaseResult result = Kill(6);
  ExpectPassed({result});
  EXPECT_EQ(result.faults_injected, 6u);
}

TEST_F(CrashCampaignTest, AChildThatEndsByItselfIsNoCrash) {
  Use("slab:{}?direct=optional");
  options_.child_command = {KVBED_COMMAND, "verify-child"};
  Use("slab:{}?direct=optional&capacity=8k");  // no snapshot of two blocks fits
  ExpectReported({Kill()}, "wasn't killed");
}

TEST_F(CrashCampaignTest, LostAndOlderSnapshotsAreReported) {
  UseBroken<LosesASnapshotWhenReopened>("slab:{}?direct=optional");
  ExpectReported({Kill()}, "gone");
  std::filesystem::remove_all(store_path());
  UseBroken<FlipsABit>("files:{}?direct=optional");
  const CaseResult flipped = Kill();
  ExpectReported({flipped}, "isn't whole");
  EXPECT_TRUE(flipped.finding.has_value());
  EXPECT_GT(flipped.served_wrong, 0u);
}

TEST_F(CrashCampaignTest, AForgottenSyncIsReported) {
  for (const FaultKind how : {FaultKind::kLostWrites, FaultKind::kReorderedWrites}) {
    SCOPED_TRACE(FaultKindName(how));
    Use("slab:{}?direct=optional&sync=none");
    const CaseResult result = Cut(how, 40);
    ASSERT_EQ(result.status, CaseStatus::kFail);
    EXPECT_NE(result.reason.find("power cut"), std::string::npos) << result.reason;
    std::filesystem::remove_all(store_path());
  }
}

TEST(SnapshotOracle, TellsWhatIsGoneMixedOrNeverWas) {
  auto store = OpenStore(ParseStoreSpec("memory:").value(), {}).value();
  const std::vector<uint64_t> one = {1, 1, 1}, other = {1, 1, 2};
  const Manifest first = SeededManifest("a", 8192, 5, one);
  const Manifest second = SeededManifest("a", 8192, 5, other);
  SnapshotOracle oracle;
  ASSERT_OK(oracle.Snapshot(*store, first));
  EXPECT_EQ(oracle.Check(*store).problem, "");
  oracle.Begin("a", second);
  EXPECT_EQ(oracle.Check(*store).problem, "");  // still as it was
  ASSERT_OK(TakeSnapshot(*store, second, CommitMode::kReplace));
  oracle.Settle("a", second);
  OracleVerdict verdict = oracle.Check(*store);
  EXPECT_EQ(verdict.problem, "");
  ASSERT_OK(TakeSnapshot(*store, first, CommitMode::kReplace));
  oracle.Begin("a", second);
  oracle.End();
  verdict = oracle.Check(*store);
  EXPECT_NE(verdict.problem.find("older state"), std::string::npos) << verdict.problem;
  EXPECT_EQ(verdict.served_wrong, 1u);
  const std::vector<uint64_t> mixed = {1, 1};
  ASSERT_OK(TakeSnapshot(*store, SeededManifest("a", 8192, 5, mixed), CommitMode::kReplace));
  oracle.Settle("a", first);
  verdict = oracle.Check(*store);
  EXPECT_NE(verdict.problem.find("never had"), std::string::npos) << verdict.problem;
  ASSERT_OK(store->RemoveManifest("a"));
  oracle.Settle("a", first);
  EXPECT_NE(oracle.Check(*store).problem.find("gone"), std::string::npos);
  oracle.Settle("a", std::nullopt);
  EXPECT_EQ(oracle.Check(*store).problem, "");
  ASSERT_OK(TakeSnapshot(*store, SeededManifest("b", 8192, 6, one)));
  EXPECT_NE(oracle.Check(*store).problem.find("nobody committed"), std::string::npos);
  EXPECT_EQ(oracle.Check(*store, {.prefix = "a", .counts_records = false}).problem, "");
}

}  // namespace
}  // namespace kvbed
