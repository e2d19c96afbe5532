// An offload beside other work: at the rate that was asked for, again and again, and nothing of it
// is left.
#include "tools/bench/beside_offload.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "backends/open_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/bench/cell_data.h"
#include "tools/rates.h"

namespace kvbed {
namespace {

class BesideOffloadTest : public ::testing::Test {
 protected:
  void Open(const std::string& options) {
    cell_.shape = *FindBenchShape("smollm2-135m");
    cell_.geometry = cell_.shape.Geometry(DType::kBf16, 16);
    cell_.ctx_tokens = 8 * 16;
    store_ = OpenStore(ParseStoreSpec("slab:" + (dir_ / "kv") + options).value(),
                       {.access = StoreAccess::kCreate,
                        .record_bytes_hint = cell_.geometry.record_bytes()})
                 .value();
    pool_ = BlockPool::Create(cell_.geometry, 8).value();
    CellData data = CellData::Create(cell_).value();
    sequence_.emplace(data.FilledSequence(*pool_, cell_.ctx_tokens).value());
    manifest_ = data.NewManifest("beside", cell_.ctx_tokens);
  }
  std::unique_ptr<BesideOffload> Start(double gb_per_s) {
    return BesideOffload::Start(*store_, *sequence_, manifest_,
                                {.gb_per_s = gb_per_s, .iodepth = 4, .snapshot = "beside"});
  }

  const TempDir dir_;
  BenchCell cell_;
  std::unique_ptr<BlockStore> store_;
  std::unique_ptr<BlockPool> pool_;
  std::optional<Sequence> sequence_;
  Manifest manifest_;
};

void Wait(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST_F(BesideOffloadTest, KeepsToItsRate) {
  Open("?direct=optional");
  const auto offload = Start(0.02);
  Wait(500);
  ASSERT_OK_AND_ASSIGN(const BesideOffload::Report report, offload->Stop());
  // 10 MB of 373 kB records; a busy machine may fall behind and never goes ahead by more than one.
  EXPECT_LT(GbPerS(report.bytes, report.ns).value_or(0), 0.021);
  EXPECT_GT(report.bytes, 0u);
  EXPECT_GT(store_->counters().commits, 0u) << "whole snapshots, one after another";
}

TEST_F(BesideOffloadTest, CommitsWholeSnapshots) {
  Open("?direct=optional");
  auto offload = Start(0.02);
  Result<Manifest> manifest = store_->ReadManifest("beside");
  for (int i = 0; i < 5000 && !manifest.ok(); ++i) {
    Wait(1);
    manifest = store_->ReadManifest("beside");
  }
  ASSERT_OK(manifest);
  EXPECT_EQ(manifest->blocks.size(), 8u);
  EXPECT_EQ(manifest->cached_tokens, 8u * 16);
  EXPECT_OK(ValidateManifest(*manifest));
}

TEST_F(BesideOffloadTest, LeavesNothingWhenItIsStoppedMidway) {
  Open("?direct=optional");
  {
    const auto offload = Start(0.001);  // a record each 0.4 s
    Wait(20);
  }
  EXPECT_TRUE(store_->ListManifests().value().empty());
  EXPECT_TRUE(store_->ListRecords().value().empty());
}

TEST_F(BesideOffloadTest, AStoreThatIsFullEndsItWithTheError) {
  Open("?direct=optional&capacity=1500000");
  const auto offload = Start(10);
  Wait(300);
  EXPECT_TRUE(FailsWith(offload->Stop().status(), StatusCode::kOutOfSpace));
  EXPECT_TRUE(store_->ListManifests().value().empty());
}

}  // namespace
}  // namespace kvbed
