// The faulty store: each fault does to records what its name says, and only that.
#include "backends/faulty_store.h"

#include <bit>

#include "backends/memory_store.h"
#include "offload/clock.h"
#include "tests/backends/store_testing.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

constexpr uint64_t kBlocks = 4;

class FaultyStoreTest : public ::testing::Test {
 protected:
  void Play(std::vector<Fault> faults) {
    faults_ = std::make_unique<StoreFaults>(FaultPlan{.seed = 9, .faults = std::move(faults)});
    store_ = MakeFaultyStore(MakeMemoryStore({}), *faults_);
  }
  TestRequests GetAll() {
    TestRequests gets = GetsOf(manifest_);
    std::fill(gets.memory().begin(), gets.memory().end(), std::byte{0xff});
    gets.RunOn(*store_);
    return gets;
  }
  // Every record but `index` is intact.
  static void ExpectOthersIntact(const TestRequests& gets, size_t index) {
    for (size_t i = 0; i < gets.size(); ++i) {
      if (i != index) EXPECT_TRUE(gets.IsIntact(i)) << i;
    }
  }
  static std::vector<std::byte> BytesOf(const RecordId& id) {
    std::vector<std::byte> bytes(kSmallRecord);
    FillRecord(id, bytes);
    return bytes;
  }
  static bool Equal(Bytes a, Bytes b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
  static int DifferingBits(Bytes a, Bytes b) {
    int bits = 0;
    for (size_t i = 0; i < a.size(); ++i)
      bits += std::popcount(std::to_integer<uint8_t>(a[i] ^ b[i]));
    return bits;
  }

  const Manifest manifest_ = MakeManifest("s", kSmallRecord, kBlocks);
  std::unique_ptr<StoreFaults> faults_;
  std::unique_ptr<BlockStore> store_;
};

TEST_F(FaultyStoreTest, WithoutFaultsNothingStrikes) {
  Play({});
  ASSERT_OK(TakeSnapshot(*store_, manifest_));
  EXPECT_TRUE(IsWhole(*store_, manifest_));
  EXPECT_EQ(faults_->struck(), 0u);
}

TEST_F(FaultyStoreTest, AFlippedBitIsOneBit) {
  for (const FaultTarget target : {FaultTarget::kRead, FaultTarget::kWrite}) {
    Play({{.kind = FaultKind::kBitFlip, .target = target, .first = 1}});
    ASSERT_OK(TakeSnapshot(*store_, manifest_));
    TestRequests gets = GetAll();
    ASSERT_OK(gets.first_error());
    EXPECT_EQ(DifferingBits(gets[1].record, BytesOf(gets[1].id)), 1);
    ExpectOthersIntact(gets, 1);
    // Damage on the way in lasts, on the way out it doesn't.
    EXPECT_EQ(GetAll().IsIntact(1), target == FaultTarget::kRead);
  }
}

TEST_F(FaultyStoreTest, AShortRecordSaysHowMuchThereIsAndLeavesTheRestAlone) {
  for (const FaultTarget target : {FaultTarget::kRead, FaultTarget::kWrite}) {
    Play({{.kind = FaultKind::kShortTransfer, .target = target, .first = 2, .amount = 5000}});
    ASSERT_OK(TakeSnapshot(*store_, manifest_));
    TestRequests gets = GetAll();
    EXPECT_TRUE(FailsWith(gets[2].status, StatusCode::kCorruption, "5000 of 8192"));
    EXPECT_EQ(gets[2].short_bytes, 5000u);
    EXPECT_TRUE(Equal(gets[2].record.first(5000), Bytes(BytesOf(gets[2].id)).first(5000)));
    EXPECT_EQ(gets[2].record[5000], std::byte{0xff});
    EXPECT_EQ(gets[2].record[8191], std::byte{0xff});
    ExpectOthersIntact(gets, 2);
  }
}

TEST_F(FaultyStoreTest, ATornRecordHasItsBeginningOnly) {
  Play({{.kind = FaultKind::kTornWrite, .target = FaultTarget::kWrite}});
  ASSERT_OK(TakeSnapshot(*store_, manifest_));
  TestRequests gets = GetAll();
  ASSERT_OK(gets.first_error());
  EXPECT_TRUE(Equal(gets[0].record.first(4096), Bytes(BytesOf(gets[0].id)).first(4096)));
  EXPECT_TRUE(AllZero(gets[0].record.subspan(4096)));
  ExpectOthersIntact(gets, 0);
}

TEST_F(FaultyStoreTest, AMisdirectedReadBringsAnotherRecord) {
  Play({{.kind = FaultKind::kMisdirectedRead, .target = FaultTarget::kRead, .first = 3}});
  ASSERT_OK(TakeSnapshot(*store_, manifest_));
  TestRequests gets = GetAll();
  ASSERT_OK(gets.first_error());
  EXPECT_FALSE(gets.IsIntact(3));
  int equals = 0;
  for (size_t i = 0; i < 3; ++i) equals += Equal(gets[3].record, BytesOf(gets[i].id));
  EXPECT_EQ(equals, 1);
  ExpectOthersIntact(gets, 3);
  EXPECT_TRUE(GetAll().IsIntact(3));
}

TEST_F(FaultyStoreTest, AMisdirectedWriteLandsOnANeighbour) {
  Play({{.kind = FaultKind::kMisdirectedWrite, .target = FaultTarget::kWrite, .first = 3}});
  ASSERT_OK(TakeSnapshot(*store_, manifest_));
  TestRequests gets = GetAll();
  ASSERT_OK(gets.first_error());
  EXPECT_TRUE(AllZero(gets[3].record));
  int overwritten = 0;
  for (size_t i = 0; i < 3; ++i) overwritten += Equal(gets[i].record, BytesOf(gets[3].id));
  EXPECT_EQ(overwritten, 1);
}

TEST_F(FaultyStoreTest, AStaleRecordIsTheBlocksOlderStateOrZeroes) {
  // The last of the second snapshot's puts, which is the new state of the tail.
  Play(
      {{.kind = FaultKind::kStaleRecord, .target = FaultTarget::kWrite, .first = 2 * kBlocks - 1}});
  const Manifest grown = Grown(manifest_, "t", kBlocks - 1, kBlocks);
  ASSERT_OK(TakeSnapshot(*store_, manifest_));
  ASSERT_OK(TakeSnapshot(*store_, grown));
  TestRequests gets = GetsOf(grown);
  gets.RunOn(*store_);
  ASSERT_OK(gets.first_error());
  EXPECT_TRUE(Equal(gets[kBlocks - 1].record, BytesOf(manifest_.blocks.back().id)));
  // Without an older state in the store the place was never written.
  ASSERT_OK(store_->RemoveManifest("s"));
  gets.RunOn(*store_);
  ASSERT_OK(gets.first_error());
  EXPECT_TRUE(AllZero(gets[kBlocks - 1].record));
}

TEST_F(FaultyStoreTest, ALostPutIsAnsweredOkAndMissingLater) {
  Play({{.kind = FaultKind::kLostWrites, .target = FaultTarget::kWrite, .first = 1}});
  ASSERT_OK(TakeSnapshot(*store_, manifest_));
  TestRequests gets = GetAll();
  EXPECT_TRUE(FailsWith(gets[1].status, StatusCode::kNotFound, "lost_writes"));
  ExpectOthersIntact(gets, 1);
}

TEST_F(FaultyStoreTest, ErrorsFailTheRequestAndTheSnapshot) {
  Play({{.kind = FaultKind::kEio, .target = FaultTarget::kWrite, .first = 2}});
  EXPECT_TRUE(FailsWith(TakeSnapshot(*store_, manifest_), StatusCode::kIoError, "eio"));
  EXPECT_TRUE(SnapshotNames(*store_).empty());
  EXPECT_OK(TakeSnapshot(*store_, manifest_));

  Play({{.kind = FaultKind::kEnospc, .target = FaultTarget::kWrite}});
  EXPECT_EQ(TakeSnapshot(*store_, manifest_).code(), StatusCode::kOutOfSpace);
  EXPECT_OK(TakeSnapshot(*store_, manifest_));

  Play({{.kind = FaultKind::kEio, .target = FaultTarget::kRead, .first = 1}});
  ASSERT_OK(TakeSnapshot(*store_, manifest_));
  TestRequests gets = GetAll();
  EXPECT_EQ(gets[1].status.code(), StatusCode::kIoError);
  ExpectOthersIntact(gets, 1);
}

TEST_F(FaultyStoreTest, AFailedFlushLosesTheDataForGood) {
  Play({{.kind = FaultKind::kFailedSync, .target = FaultTarget::kSync}});
  EXPECT_TRUE(FailsWith(TakeSnapshot(*store_, manifest_), StatusCode::kIoError, "failed_sync"));
  EXPECT_TRUE(FailsWith(TakeSnapshot(*store_, manifest_), StatusCode::kIoError, "reopen"));
}

TEST_F(FaultyStoreTest, CommitAndRemoveCanFailAndChangeNothing) {
  Play({{.kind = FaultKind::kEio, .target = FaultTarget::kRename},
        {.kind = FaultKind::kEio, .target = FaultTarget::kUnlink}});
  EXPECT_EQ(TakeSnapshot(*store_, manifest_).code(), StatusCode::kIoError);
  ASSERT_OK(TakeSnapshot(*store_, manifest_));
  EXPECT_EQ(store_->RemoveManifest("s").code(), StatusCode::kIoError);
  EXPECT_TRUE(IsWhole(*store_, manifest_));
  EXPECT_OK(store_->RemoveManifest("s"));
}

TEST_F(FaultyStoreTest, ADelayedRequestComesLaterThanTheOthers) {
  Play({{.kind = FaultKind::kDelay, .target = FaultTarget::kRead, .amount = 20'000}});
  ASSERT_OK(TakeSnapshot(*store_, manifest_));
  TestRequests gets = GetsOf(manifest_);
  ASSERT_OK_AND_ASSIGN(StoreChannel channel, store_->OpenChannel({}));
  const uint64_t before_ns = MonotonicNs();
  channel.Submit(gets.pointers());
  std::vector<StoreRequest*> completed;
  while (channel.outstanding() > 0) ASSERT_OK(channel.Reap(1, completed));
  ASSERT_EQ(completed.size(), kBlocks);
  EXPECT_EQ(completed.back(), &gets[0]);
  EXPECT_GE(MonotonicNs() - before_ns, 20'000'000u);
  EXPECT_TRUE(gets.IsIntact(0));
}

TEST_F(FaultyStoreTest, TheSameSeedDoesTheSame) {
  const auto flipped = [&] {
    Play({{.kind = FaultKind::kBitFlip, .target = FaultTarget::kRead}});
    EXPECT_OK(TakeSnapshot(*store_, manifest_));
    TestRequests gets = GetAll();
    return std::vector<std::byte>(gets[0].record.begin(), gets[0].record.end());
  };
  EXPECT_EQ(flipped(), flipped());
}

}  // namespace
}  // namespace kvbed
