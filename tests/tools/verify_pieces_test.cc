// What the self-test's campaigns are made of: seeded KV, a snapshot's trial, damage of files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "backends/memory_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/verify/file_damage.h"
#include "tools/verify/record_round_trips.h"
#include "tools/verify/seeded_kv.h"
#include "tools/verify/snapshot_trial.h"

namespace kvbed {
namespace {

SeededKv Grown(uint64_t sequence_id, std::vector<uint64_t> steps) {
  SeededKv kv = SeededKv::Create(kTrialGeometry, sequence_id, steps.back()).value();
  for (const uint64_t tokens : steps) EXPECT_OK(kv.GrowTo(tokens));
  return kv;
}

TEST(SeededKv, FollowsFromSequenceAndPositionHoweverItIsGrown) {
  EXPECT_EQ(Grown(7, {30}).Records(), Grown(7, {1, 8, 24, 30}).Records());
  EXPECT_NE(Grown(7, {30}).Records(), Grown(9, {30}).Records());
}

TEST(SeededKv, APoolHoldsPoisonUntilItIsUsed) {
  SeededKv kv = SeededKv::Create(kTrialGeometry, 7, 24).value();
  EXPECT_TRUE(AllPoisoned(kv.pool()));
  ASSERT_OK(kv.GrowTo(1));
  EXPECT_FALSE(AllPoisoned(kv.pool()));
}

TEST(SnapshotTrial, ComesBackWholeAndAnotherOneDoesNot) {
  const auto store = MakeMemoryStore({});
  SeededKv kv = SeededKv::Create(kTrialGeometry, 7, kTrialTokens).value();
  ASSERT_OK_AND_ASSIGN(PutSnapshot put, PutSeeded(*store, kv, {.name = "s"}));
  EXPECT_TRUE(GetSeeded(*store, put).whole());
  put.records[2][5000] ^= std::byte{1};
  const GotSnapshot got = GetSeeded(*store, put);
  EXPECT_EQ(got.served_wrong, 1u);
  EXPECT_EQ(got.wrong_block, 2u);
  EXPECT_EQ(got.wrong_byte, 5000u);
  put.manifest.name = "other";
  EXPECT_TRUE(GetSeeded(*store, put).missing());
}

TEST(SnapshotTrial, AFindingAboutAnotherPlaceIsNoticed) {
  GotSnapshot canary, verified;
  canary.wrong_block = 1;
  canary.wrong_byte = kPageBytes + 3;
  Finding finding;
  finding.id.key.block_index = 1;
  finding.check = Check::kPayload;
  finding.layer = 0;
  finding.kv = KvPart::kK;
  verified.report.findings = {finding};
  EXPECT_EQ(WhyFindingIsWrong(verified, canary), "");
  for (const auto change :
       {+[](Finding& one) { one.check = Check::kPadding; }, +[](Finding& one) { one.layer = 1; },
        +[](Finding& one) { one.kv = KvPart::kV; },
        +[](Finding& one) { one.id.key.block_index = 2; }}) {
    GotSnapshot wrong = verified;
    change(wrong.report.findings.front());
    EXPECT_NE(WhyFindingIsWrong(wrong, canary), "");
  }
}

TEST(RecordTrips, CoverEveryBlockSizeAndPlaceOnceEach) {
  std::set<std::string> names;
  for (const RecordTrip& trip : RecordTrips(VerifyProfile::kCi)) {
    EXPECT_TRUE(names.insert(trip.name).second) << trip.name;
    EXPECT_OK(trip.geometry.Validate());
    const uint64_t block = trip.geometry.block_tokens;
    const uint64_t over = trip.snapshot_tokens % block;
    if (trip.name.ends_with("mid_block")) EXPECT_NE(over, 0u) << trip.name;
    if (trip.name.ends_with("block_boundary")) EXPECT_EQ(over, 0u) << trip.name;
    if (trip.name.ends_with("after_prefill")) EXPECT_EQ(trip.snapshot_tokens, trip.prompt_tokens);
  }
  for (const char* block : {"1", "4", "5", "7", "16", "64"}) {
    for (const char* model : {"gqa_8_2", "mqa", "mha"}) {
      EXPECT_TRUE(names.contains(std::string(model) + "/fp32/block_" + block + "/block_boundary"));
    }
  }
}

class FileDamageTest : public testing::Test {
 protected:
  FileDamageTest() {
    std::filesystem::create_directories(store_);
    std::ofstream(file_) << "0123456789";
  }
  std::string Contents() const { return ReadBytes(file_, 0, SizeOfFile(file_)).value(); }
  TempDir folder_;
  const std::string store_ = folder_ / "store";
  const std::string file_ = store_ + "/f";
};

TEST_F(FileDamageTest, IsDoneAndUndoneInAnyOrder) {
  {
    FileDamage damage(folder_.path());
    ASSERT_OK(damage.Overwrite(file_, 2, "xx"));
    EXPECT_EQ(Contents(), "01xx456789");
    ASSERT_OK(damage.FlipBit(file_, 0, 0));
    EXPECT_EQ(Contents(), "11xx456789");
    ASSERT_OK(damage.Truncate(file_, 5));
    EXPECT_EQ(Contents(), "11xx4");
    ASSERT_OK(damage.Append(file_, "yyy"));
    EXPECT_EQ(Contents(), "11xx4yyy");
    ASSERT_OK(damage.ReplaceByFile(file_, "z"));
    EXPECT_EQ(Contents(), "z");
    ASSERT_OK(damage.Remove(file_));
    EXPECT_FALSE(std::filesystem::exists(file_));
    ASSERT_OK(damage.Undo());
    EXPECT_EQ(Contents(), "0123456789");
    ASSERT_OK(damage.ReplaceByFolder(file_));
    EXPECT_TRUE(std::filesystem::is_directory(file_));
  }
  EXPECT_EQ(Contents(), "0123456789");
  EXPECT_EQ(FilesBelow(folder_.path()), std::vector<std::string>{file_});
}

TEST_F(FileDamageTest, PermissionIsLostAndComesBack) {
  {
    const auto lost = LostPermission::Take(store_, file_);
    if (!lost.ok()) GTEST_SKIP() << lost.status().message();
    EXPECT_FALSE(ReadBytes(file_, 0, 1).ok());
  }
  EXPECT_EQ(Contents(), "0123456789");
}

}  // namespace
}  // namespace kvbed
