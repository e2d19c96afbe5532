// Runs whose figures would be false, each caught by the proof of its bytes or by its times: real
// stores over a real disk, a null one, the page cache, and a disk whose syncs are slow.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backends/direct_io.h"
#include "backends/faulty_io.h"
#include "backends/open_store.h"
#include "offload/block_pool.h"
#include "offload/offloader.h"
#include "tests/support/require.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/moved_bytes.h"
#include "tools/bench/null_io.h"
#include "tools/bench/synthetic_kv.h"

namespace kvbed {
namespace {

constexpr KvGeometry kProofGeometry{.layers = 8, .kv_heads = 4, .head_dim = 64, .block_tokens = 16};
constexpr uint64_t kTokens = 32 * 16;

class FalseProof : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(pool_, BlockPool::Create(kProofGeometry, kTokens / 16));
    counters_ = DeviceCounters::For(dir_.path(), {});
  }

  // Opens a slab store over `io` and offloads a sequence to it.
  void OffloadOver(std::unique_ptr<Io> io, DirectMode direct) {
    StoreOpenOptions options;
    options.access = StoreAccess::kCreate;
    options.defaults.direct = direct;
    options.record_bytes_hint = kProofGeometry.record_bytes();
    StoreSpec spec;
    spec.path = dir_ / "store";
    ASSERT_OK_AND_ASSIGN(store_, OpenStoreOver(std::move(io), spec, options));
    ASSERT_OK_AND_ASSIGN(StoreChannel channel,
                         store_->OpenChannel({.iodepth = 4, .memory = pool_->memory()}));
    channel_.emplace(std::move(channel));
    ASSERT_OK_AND_ASSIGN(const SyntheticKv data, SyntheticKv::Create(kProofGeometry, 1));
    Sequence sequence = NewSequence();
    ASSERT_OK(sequence.Reserve(kTokens));
    sequence.Advance(kTokens);
    data.Fill(sequence, 0);
    manifest_.name = "proof";
    manifest_.token_ids.assign(kTokens, 0);
    const MovedBytes moved(counters_);
    ASSERT_OK_AND_ASSIGN(offloaded_, Offload(*store_, *channel_, sequence, manifest_, {}));
    write_ = moved.Evidence({0, offloaded_.written_bytes});
  }

  // Into memory that holds nothing of it.
  void RestoreIt() {
    pool_->PoisonAll();
    Sequence sequence = NewSequence();
    const MovedBytes moved(counters_);
    ASSERT_OK_AND_ASSIGN(restored_, Restore(*store_, *channel_, manifest_, sequence, {}));
    read_ = moved.Evidence({restored_.stored_bytes, 0});
  }

  Sequence NewSequence() {
    return Sequence(
        *pool_,
        {.model_fingerprint = manifest_.model.Fingerprint(), .rope_identity = 0, .sequence_id = 1});
  }

  TempDir dir_;
  DeviceCounters counters_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<BlockStore> store_;
  std::optional<StoreChannel> channel_;
  Manifest manifest_;
  OffloadReport offloaded_;
  RestoreReport restored_;
  ByteEvidence write_;
  ByteEvidence read_;
};

#define NEEDS_A_VISIBLE_DISK()                                             \
  if (counters_.source() != CounterSource::kSectors) {                     \
    KVBED_SKIP_OR_FAIL("no block device in sight: " + counters_.reason()); \
  }                                                                        \
  if (!ReadProcessUsage().io || !counters_.process_counts())               \
  KVBED_SKIP_OR_FAIL("/proc/self/io doesn't count this process's I/O")

TEST_F(FalseProof, IsNotSeenInAnHonestDirectRun) {
  NEEDS_A_VISIBLE_DISK();
  auto io = OpenIo(IoEngine::kAuto).value();
  if (const auto probe = ProbeDirect(*io, dir_.path()); !probe.ok()) {
    KVBED_SKIP_OR_FAIL(probe.status().message());
  }
  OffloadOver(std::move(io), DirectMode::kRequired);
  RestoreIt();
  EXPECT_TRUE(restored_.whole());
  for (const ByteEvidence& evidence : {write_, read_}) {
    const ByteVerdict verdict = JudgeBytes(evidence);
    EXPECT_TRUE(verdict.failures.empty()) << verdict.failures[0];
    ASSERT_TRUE(verdict.worse_ratio);
    EXPECT_GE(*verdict.worse_ratio, 0.98);
  }
}

TEST_F(FalseProof, OfTheNullQueueUsedAsADiskIsCaughtInBothDirections) {
  NEEDS_A_VISIBLE_DISK();
  OffloadOver(MakeNullIo(OpenIo(IoEngine::kPsync).value()), DirectMode::kOff);
  RestoreIt();
  EXPECT_EQ(restored_.blocks_restored, 0u);
  EXPECT_EQ(restored_.findings.size(), kTokens / 16) << "every record is poison";
  EXPECT_EQ(JudgeBytes(write_).failures.size(), 1u);
  EXPECT_EQ(JudgeBytes(read_).failures.size(), 1u);

  // Also beside a neighbour that moves as many bytes over the same disk.
  write_.device = write_.app;
  read_.device = read_.app;
  EXPECT_EQ(JudgeBytes(write_).failures.size(), 1u);
  EXPECT_EQ(JudgeBytes(read_).failures.size(), 1u);
}

TEST_F(FalseProof, OfAPageCacheThatAnswersWhatIsSaidToBeDirectIsCaught) {
  NEEDS_A_VISIBLE_DISK();
  OffloadOver(OpenIo(IoEngine::kAuto).value(), DirectMode::kOff);
  RestoreIt();
  EXPECT_TRUE(restored_.whole()) << "the bytes are right, it is the figure that isn't";
  EXPECT_TRUE(JudgeBytes(write_).failures.empty()) << "written through, by the sync";
  EXPECT_EQ(JudgeBytes(read_).failures.size(), 1u);
  EXPECT_LT(read_.process->read_bytes, read_.app.read_bytes / 50);

  // Said to be buffered, it is no lie, and nothing to publish.
  read_.direct = false;
  EXPECT_TRUE(JudgeBytes(read_).failures.empty());
  EXPECT_FALSE(JudgeBytes(read_).remarks.empty());
}

TEST_F(FalseProof, OfAClockThatStopsBeforeTheSyncIsNoneSinceD1HasIt) {
  constexpr uint64_t kDelayUs = 100'000;
  FaultDevice device({.faults = {{.kind = FaultKind::kDelay,
                                  .target = FaultTarget::kSync,
                                  .count = kForever,
                                  .amount = kDelayUs}}});
  OffloadOver(MakeFaultyIo(OpenIo(IoEngine::kAuto).value(), device), DirectMode::kOptional);
  EXPECT_GT(device.struck(), 0u);
  EXPECT_GE(offloaded_.d1_ns, offloaded_.d0_ns + kDelayUs * 1000);
  EXPECT_GE(offloaded_.d2_ns, offloaded_.d1_ns);
  EXPECT_GE(offloaded_.d0_ns, offloaded_.last_done_ns) << "D0 is that of the writes";
}

}  // namespace
}  // namespace kvbed
