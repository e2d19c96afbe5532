// Parts that go at once over queues of their own: all come back whole, an error of one ends all,
// and a round's times are those of the slowest.
#include "tools/bench/load_mover.h"

#include <gtest/gtest.h>

#include <memory>

#include "backends/open_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/bench/synthetic_kv.h"

namespace kvbed {
namespace {

class LoadMoverTest : public testing::Test {
 protected:
  LoadMoverTest() {
    store_ = OpenStore(ParseStoreSpec("slab:" + (dir_ / "kv") + "?direct=optional").value(),
                       {.access = StoreAccess::kCreate})
                 .value();
    pool_ = BlockPool::Create(geometry_, 64).value();
  }

  Sequence NewSequence(uint64_t id) {
    return Sequence(
        *pool_,
        {.model_fingerprint = ModelDigests{}.Fingerprint(), .rope_identity = 0, .sequence_id = id});
  }

  // Three sequences of 16, 32 and 48 tokens, moved by three queues.
  void Fill() {
    const SyntheticKv data = SyntheticKv::Create(geometry_, 7).value();
    for (uint64_t i = 0; i < 3; ++i) {
      Sequence sequence = NewSequence(i + 1);
      const uint64_t tokens = 16 * (i + 1);
      KVBED_CHECK(sequence.Reserve(tokens).ok());
      sequence.Advance(tokens);
      data.Fill(sequence, i);
      sequences_.push_back(std::move(sequence));
      manifests_.emplace_back();
      manifests_.back().name = "part-" + std::to_string(i);
      manifests_.back().prompt_tokens = tokens;
      manifests_.back().token_ids.assign(tokens, 0);
      manifests_.back().environment.kernel_set = "none";
    }
  }
  std::vector<LoadMover::OffloadPart> Parts() {
    std::vector<LoadMover::OffloadPart> parts;
    for (uint32_t i = 0; i < 3; ++i) parts.push_back({i, &sequences_[i], &manifests_[i], {}});
    return parts;
  }

  const KvGeometry geometry_{.layers = 2, .kv_heads = 1, .head_dim = 64, .block_tokens = 4};
  const TempDir dir_;
  std::unique_ptr<BlockStore> store_;
  std::unique_ptr<BlockPool> pool_;
  std::vector<Sequence> sequences_;
  std::vector<Manifest> manifests_;
};

TEST_F(LoadMoverTest, MovesSeveralSequencesAtOnceAndBack) {
  Fill();
  auto mover = LoadMover::Open(*store_, *pool_, 3, 4).value();
  auto parts = Parts();
  const OffloadSample offload = mover->Offload(parts, {}).value();
  EXPECT_TRUE(offload.several_sequences);
  EXPECT_LE(offload.d0_ns, offload.d1_ns);
  EXPECT_LE(offload.d1_ns, offload.d2_ns);
  EXPECT_LE(offload.first_done_ns, offload.last_done_ns);
  for (const auto& part : parts) EXPECT_LE(part.report.d1_ns, offload.d1_ns);
  sequences_.clear();
  pool_->PoisonAll();

  std::vector<Sequence> restored;
  for (const Manifest& manifest : manifests_) restored.push_back(NewSequence(manifest.sequence_id));
  std::vector<LoadMover::RestorePart> back;
  for (uint32_t i = 0; i < 3; ++i) back.push_back({i, &restored[i], &manifests_[i], {}});
  const RestoreSample restore = mover->Restore(back, {}).value();
  EXPECT_GT(restore.verify_ns, 0);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(back[i].report.whole());
    EXPECT_EQ(restored[i].cached_tokens(), 16 * (i + 1));
    EXPECT_LE(back[i].report.wall_ns, restore.wall_ns);
  }
}

TEST_F(LoadMoverTest, OnePartIsMovedByTheCaller) {
  Fill();
  auto mover = LoadMover::Open(*store_, *pool_, 1, 4).value();
  LoadMover::OffloadPart part{.sequence = &sequences_[0], .manifest = &manifests_[0], .report = {}};
  const OffloadSample sample = mover->Offload({&part, 1}, {}).value();
  EXPECT_FALSE(sample.several_sequences);
  EXPECT_EQ(sample.first_done_ns, part.report.first_done_ns);
}

TEST_F(LoadMoverTest, AnErrorOfOnePartIsTheRounds) {
  Fill();
  manifests_[1].name = manifests_[0].name;  // one of the two finds it taken
  auto mover = LoadMover::Open(*store_, *pool_, 3, 4).value();
  auto parts = Parts();
  EXPECT_FALSE(mover->Offload(parts, {}).ok());
  // The others are there, and the mover works on.
  manifests_[1].name = "another";
  LoadMover::OffloadPart again{1, &sequences_[1], &manifests_[1], {}};
  EXPECT_TRUE(mover->Offload({&again, 1}, {}).ok());
}

TEST(SampleRounds, AddUpOneAfterAnother) {
  OffloadSample sum;
  OffloadSample round;
  round.d0_ns = 5;
  round.d1_ns = 7;
  round.d2_ns = 10;
  round.first_done_ns = 2;
  round.last_done_ns = 5;
  sum.AddRound(round);
  sum.AddRound(round);
  EXPECT_EQ(sum.d1_ns, 14);
  EXPECT_EQ(sum.first_done_ns, 2);
  EXPECT_EQ(sum.last_done_ns, 15);
  // Of several sequences none is done before the last round.
  OffloadSample whole;
  round.several_sequences = true;
  whole.AddRound(round);
  whole.AddRound(round);
  EXPECT_EQ(whole.first_done_ns, 12);
}

}  // namespace
}  // namespace kvbed
