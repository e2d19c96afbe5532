// An aged store: half of what was filled was freed at random, and what is measured next lies
// scattered. And the room that conditions take is asked for before.
#include "tools/bench/aged_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "backends/open_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/bench/cell_space.h"

namespace kvbed {
namespace {

// 64 blocks of SmolLM2's shape: 23.9 MB.
BenchCell CellOf64Blocks() {
  BenchCell cell;
  cell.shape = *FindBenchShape("smollm2-135m");
  cell.geometry = cell.shape.Geometry(DType::kBf16, 16);
  cell.ctx_tokens = 64 * 16;
  cell.aged = true;
  return cell;
}

TEST(AgePlan, FreesHalfAndLeavesTheCellsRoomScattered) {
  const BenchCell cell = CellOf64Blocks();
  const AgePlan plan = PlanAge(cell, 4 * cell.stored_bytes(), 64);
  EXPECT_EQ(plan.snapshot_tokens, 8u * 16);
  EXPECT_EQ(plan.snapshots, 32u);
  EXPECT_EQ(plan.freed, 16u);
  EXPECT_EQ(plan.refilled, 8u) << "the other 8 are as large as the cell";
}

TEST(AgePlan, RefillsAtLeastHalfOfWhatWasFreed) {
  const BenchCell cell = CellOf64Blocks();
  const AgePlan plan = PlanAge(cell, cell.stored_bytes(), 64);
  EXPECT_EQ(plan.snapshots, 8u);
  EXPECT_EQ(plan.freed, 4u);
  EXPECT_EQ(plan.refilled, 2u);
}

TEST(AgePlan, MovesNoMoreThanThePoolHolds) {
  EXPECT_EQ(PlanAge(CellOf64Blocks(), 1 << 30, 3).snapshot_tokens, 3u * 16);
}

class AgedStoreTest : public ::testing::Test {
 protected:
  AgedStoreTest() {
    cell_.ctx_tokens = 16 * 16;
    store_ = OpenStore(ParseStoreSpec("slab:" + (dir_ / "kv") + "?direct=optional").value(),
                       {.access = StoreAccess::kCreate,
                        .record_bytes_hint = cell_.geometry.record_bytes()})
                 .value();
    pool_ = BlockPool::Create(cell_.geometry, 16).value();
    data_.emplace(CellData::Create(cell_).value());
    mover_ = LoadMover::Open(*store_, *pool_, 1, 4).value();
  }
  AgeTools Tools() {
    return {.store = *store_,
            .mover = *mover_,
            .data = *data_,
            .pool = *pool_,
            .name = [](uint64_t number) { return "aged-" + std::to_string(number); },
            .written = [this](const Manifest& manifest) { written_.push_back(manifest.name); }};
  }
  // Where a snapshot of the cell lies now.
  std::vector<uint64_t> PlacesOfTheNext() {
    Sequence sequence = data_->FilledSequence(*pool_, cell_.ctx_tokens).value();
    Manifest manifest = data_->NewManifest("next", cell_.ctx_tokens);
    LoadMover::OffloadPart part{.sequence = &sequence, .manifest = &manifest, .report = {}};
    EXPECT_OK(mover_->Offload({&part, 1}, {}));
    std::vector<uint64_t> places;
    for (const ManifestBlock& block : manifest.blocks) places.push_back(block.place);
    std::ranges::sort(places);
    return places;
  }

  const TempDir dir_;
  BenchCell cell_ = CellOf64Blocks();
  std::unique_ptr<BlockStore> store_;
  std::unique_ptr<BlockPool> pool_;
  std::optional<CellData> data_;
  std::unique_ptr<LoadMover> mover_;
  std::vector<std::string> written_;
};

TEST_F(AgedStoreTest, HoldsWhatWasPlannedAndTheNextSnapshotIsScattered) {
  const AgePlan plan = PlanAge(cell_, 4 * cell_.stored_bytes(), 16);
  ASSERT_OK_AND_ASSIGN(const AgedSample sample, AgeStore(plan, 11, Tools()));
  EXPECT_EQ(sample.snapshots, 32u);
  EXPECT_EQ(sample.freed, 16u);
  EXPECT_EQ(sample.refilled, 8u);
  EXPECT_EQ(sample.bytes, 4 * cell_.stored_bytes());
  EXPECT_EQ(written_.size(), 32u + 8u);
  EXPECT_EQ(store_->ListManifests().value().size(), 32u - 16u + 8u);
  const std::vector<uint64_t> places = PlacesOfTheNext();
  EXPECT_GT(places.back() - places.front(), places.size() - 1) << "there are others in between";
}

TEST_F(AgedStoreTest, WithoutAgeingTheNextSnapshotIsNotScattered) {
  const std::vector<uint64_t> places = PlacesOfTheNext();
  EXPECT_EQ(places.back() - places.front(), places.size() - 1);
}

TEST(CellSpace, CountsTheWorkingSetAgeingAndTheMix) {
  BenchCell cell = CellOf64Blocks();
  cell.store.spec.path = "/";
  cell.aged = false;
  const uint64_t bytes = cell.stored_bytes();
  EXPECT_EQ(DiskBytesNeeded(cell), 3 * bytes);
  cell.working_set_bytes = 5 * bytes - 1;
  EXPECT_EQ(cell.sets(), 5u);
  EXPECT_EQ(DiskBytesNeeded(cell), 7 * bytes);
  cell.mix_gb_per_s = 1;
  EXPECT_EQ(DiskBytesNeeded(cell), 8 * bytes);
  cell.aged = true;
  EXPECT_EQ(DiskBytesNeeded(cell), 9 * bytes);
  EXPECT_EQ(AgedBytesWanted(cell), 5 * bytes - 1);
}

TEST(CellSpace, AStoreWithoutRoomIsRefusedBeforeTheFirstWrite) {
  BenchCell cell = CellOf64Blocks();
  cell.store.spec.path = "/";
  cell.working_set_bytes = 5 * cell.stored_bytes();
  StoreInfo store;
  store.free_bytes = 6 * cell.stored_bytes() - 1;
  EXPECT_TRUE(FailsWith(CheckStoreRoom(cell, store), StatusCode::kOutOfSpace, "room for"));
  store.free_bytes += 1;
  EXPECT_OK(CheckStoreRoom(cell, store));
  EXPECT_EQ(AgedFillBytes(cell, store), cell.stored_bytes()) << "capped by what is left";
}

TEST(CellSpace, AWorkingSetThatNoDiskHoldsIsRefused) {
  BenchCell cell = CellOf64Blocks();
  cell.store.spec.path = "/";
  cell.working_set_bytes = UINT64_MAX;
  EXPECT_TRUE(FailsWith(CheckCellFits(cell), StatusCode::kOutOfSpace, "working set"));
}

}  // namespace
}  // namespace kvbed
