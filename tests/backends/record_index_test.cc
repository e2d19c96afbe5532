// The index of records: what names them, what is durable, and what leaves it when.
#include "backends/record_index.h"

#include "tests/backends/store_testing.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

class RecordIndexTest : public ::testing::Test {
 protected:
  void Put(const Manifest& manifest, uint64_t first_place = 0) {
    for (const ManifestBlock& block : manifest.blocks) {
      index_.Insert(block.id, first_place++, block.digest, manifest.geometry.record_bytes());
    }
  }
  void Flush() { index_.MarkDurable(index_.TakeUnflushed()); }
  std::vector<uint64_t> Released(const Manifest& manifest) {
    std::vector<FreedRecord> freed;
    index_.Release(BlockIds(manifest), freed);
    std::vector<uint64_t> places;
    for (const FreedRecord& record : freed) places.push_back(record.place);
    return places;
  }

  RecordIndex index_;
  Manifest manifest_ = MakeManifest("s", kSmallRecord, 3);
};

TEST_F(RecordIndexTest, ARecordLeavesWithTheLastManifestThatNamesIt) {
  Put(manifest_, 10);
  Flush();
  Manifest grown = Grown(manifest_, "t", 2, 3);
  index_.Insert(grown.blocks[2].id, 13, grown.blocks[2].digest, kSmallRecord);
  Flush();
  ASSERT_OK(index_.Reference(manifest_));
  ASSERT_OK(index_.Reference(grown));
  EXPECT_EQ(grown.blocks[1].place, 11u);
  EXPECT_EQ(index_.committed_records(), 4u);
  EXPECT_EQ(Released(manifest_), std::vector<uint64_t>{12});
  EXPECT_EQ(Released(grown), (std::vector<uint64_t>{10, 11, 13}));
  EXPECT_EQ(index_.committed_bytes(), 0u);
  EXPECT_EQ(index_.CommonRecordBytes(), 0u);
}

TEST_F(RecordIndexTest, AFailedCommitLeavesRecordsThatOnlyDiscardFrees) {
  Put(manifest_);
  Flush();
  ASSERT_OK(index_.Reference(manifest_));
  std::vector<FreedRecord> freed;
  index_.Discard(BlockIds(manifest_), freed);
  EXPECT_TRUE(freed.empty());
  index_.Unreference(manifest_);
  EXPECT_NE(index_.Find(manifest_.blocks[0].id), nullptr);
  index_.Discard(BlockIds(manifest_), freed);
  EXPECT_EQ(freed.size(), 3u);
  EXPECT_TRUE(FailsWith(index_.Missing(manifest_.blocks[0].id), StatusCode::kNotFound,
                        "removed meanwhile"));
}

TEST_F(RecordIndexTest, AManifestIsCountedWhollyOrNotAtAll) {
  Put(manifest_);
  Flush();
  Manifest wrong = manifest_;
  wrong.blocks[2].digest = DigestOf(manifest_.blocks[0].id);
  EXPECT_EQ(index_.Reference(wrong).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(index_.committed_records(), 0u);
  ASSERT_OK(index_.Reference(manifest_));
  Manifest contradicting = manifest_;
  contradicting.blocks[2].place = 99;
  EXPECT_EQ(index_.AddManifest(contradicting).code(), StatusCode::kCorruption);
  EXPECT_EQ(index_.ListCommitted()[0].manifests, 1u);
}

TEST_F(RecordIndexTest, AFlushCoversOnlyWhatWasPutBeforeIt) {
  Put(manifest_);
  const std::vector<UnflushedRecord> taken = index_.TakeUnflushed();
  // Meanwhile a record goes and comes again: the flush under way knows the first one only.
  std::vector<FreedRecord> freed;
  index_.Discard(std::vector{manifest_.blocks[1].id}, freed);
  index_.Insert(manifest_.blocks[1].id, 1, manifest_.blocks[1].digest, kSmallRecord);
  index_.MarkDurable(taken);
  EXPECT_TRUE(FailsWith(index_.Reference(manifest_), StatusCode::kInvalidArgument, "block 1 "));
  Flush();
  EXPECT_OK(index_.Reference(manifest_));
}

}  // namespace
}  // namespace kvbed
