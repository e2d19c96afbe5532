#include "verify/store_repair.h"

#include "tests/offload/scripted_store.h"
#include "tests/verify/stored_snapshots.h"

namespace kvbed {
namespace {

class StoreRepairTest : public StoredSnapshots {
 protected:
  // As the command does it: checked by a reader, repaired by a writer.
  StoreRepair Repair() const {
    StoreCheck check;
    {
      const auto store = Open();
      auto found = CheckStore(*store, {});
      EXPECT_OK(found);
      if (found.ok()) check = std::move(*found);
    }
    const auto store = Open(StoreAccess::kWrite);
    return RepairStore(*store, check, {});
  }
  std::vector<std::string> WholeSnapshots() const {
    const auto store = Open();
    std::vector<std::string> names;
    const auto check = CheckStore(*store, {});
    EXPECT_OK(check);
    for (const CheckedSnapshot& one : check->snapshots) {
      if (one.state == SnapshotState::kWhole) names.push_back(one.summary.name);
      EXPECT_NE(one.state, SnapshotState::kDamaged) << one.summary.name << one.why;
    }
    return names;
  }
  using Names = std::vector<std::string>;
};

TEST_P(StoreRepairTest, DropsWhatIsLostAndLeavesTheOthersBitForBit) {
  const std::string wide = BytesOf("wide", 1), shared = BytesOf("b", 0), tail = BytesOf("b", 3);
  FlipInRecord("a", 2, 4096);  // the tail that only a has
  const StoreRepair repair = Repair();
  ASSERT_EQ(repair.dropped.size(), 1u);
  EXPECT_EQ(repair.dropped[0].name, "a");
  EXPECT_EQ(repair.dropped[0].why, "1 of 3 records damaged");
  EXPECT_TRUE(repair.kept.empty());
  EXPECT_OK(repair.failure);
  EXPECT_EQ(WholeSnapshots(), (Names{"b", "wide"}));
  EXPECT_EQ(BytesOf("wide", 1), wide);
  EXPECT_EQ(BytesOf("b", 0), shared);
  EXPECT_EQ(BytesOf("b", 3), tail);
}

TEST_P(StoreRepairTest, DropsEverySnapshotThatNamesTheRecord) {
  FlipInRecord("a", 0, 4096);
  EXPECT_EQ(Repair().dropped.size(), 2u);
  EXPECT_EQ(WholeSnapshots(), Names{"wide"});
}

TEST_P(StoreRepairTest, LeavesAWholeStoreAlone) {
  const StoreRepair repair = Repair();
  EXPECT_TRUE(repair.dropped.empty() && repair.kept.empty());
  EXPECT_EQ(WholeSnapshots(), (Names{"a", "b", "wide"}));
}

TEST_P(StoreRepairTest, DropsADamagedManifestAndNotANewerVersions) {
  if (!GetParam().manifests_are_files) return;  // RocksDB checks its own blocks
  Flip(ManifestFile("a"), 70);
  Flip(ManifestFile("b"), 8);
  const StoreRepair repair = Repair();
  ASSERT_EQ(repair.dropped.size(), 1u);
  EXPECT_EQ(repair.dropped[0].name, "a");
  EXPECT_FALSE(std::filesystem::exists(ManifestFile("a")));
  EXPECT_EQ(WholeSnapshots(), Names{"wide"});
  Flip(ManifestFile("b"), 8);
  EXPECT_EQ(WholeSnapshots(), (Names{"b", "wide"}));
}

INSTANTIATE_TEST_SUITE_P(Kept, StoreRepairTest, testing::ValuesIn(KeptStores()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(ScriptedRepairTest, WhatIsFoundWholeWhenCheckedAgainIsKept) {
  ScriptedStore store;
  GrowingSequence sequence(PaddedGeometry(), 77);
  sequence.Grow(40);
  sequence.Snapshot(store, "s");
  bool bad = true;
  store.on_complete = [&](StoreRequest& request) {
    if (bad) request.record[5000] ^= std::byte{1};
  };
  ASSERT_OK_AND_ASSIGN(const StoreCheck check, CheckStore(store, {}));
  ASSERT_TRUE(check.snapshots[0].lost);
  bad = false;
  const StoreRepair kept = RepairStore(store, check, {});
  EXPECT_TRUE(kept.dropped.empty());
  EXPECT_EQ(kept.kept.size(), 1u);
  EXPECT_TRUE(store.manifests.contains("s"));
  bad = true;
  store.reap_status = Status::IoError("the queue broke");
  const StoreRepair broken = RepairStore(store, check, {});
  EXPECT_TRUE(broken.dropped.empty());
  EXPECT_TRUE(FailsWith(broken.failure, StatusCode::kIoError, "queue broke"));
  EXPECT_TRUE(store.manifests.contains("s"));
  store.reap_status = Status::Ok();
  const StoreRepair dropped = RepairStore(store, check, {});
  EXPECT_EQ(dropped.dropped.size(), 1u);
  EXPECT_FALSE(store.manifests.contains("s"));
}

}  // namespace
}  // namespace kvbed
