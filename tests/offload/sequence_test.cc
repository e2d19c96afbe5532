#include "offload/sequence.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/offload/sample_records.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

const Digest128 kStore = Xxh3_128(AsBytes("this store"));
const Digest128 kOtherStore = Xxh3_128(AsBytes("another store"));
const SequenceIdentity kSequenceIdentity = {Xxh3_128(AsBytes("model")), 5, 77};

// Blocks of 5 tokens.
std::unique_ptr<BlockPool> SmallPool(uint32_t records) {
  return BlockPool::Create(TinyGeometry(), records).value();
}

StoredBlock StoredNow(const Sequence& sequence, uint64_t block, uint64_t generation) {
  return {sequence.HeaderOf(block, generation).id, Xxh3_128(AsBytes("a record")), 9,
          sequence.TokensInBlock(block), kStore};
}

TEST(Sequence, ReservesWholeBlocksZeroed) {
  const auto pool = SmallPool(4);
  pool->PoisonAll();
  Sequence sequence(*pool, kSequenceIdentity);
  ASSERT_OK(sequence.Reserve(6));
  EXPECT_EQ(sequence.block_table().size(), 2u);
  EXPECT_EQ(sequence.cached_tokens(), 0u);
  EXPECT_EQ(sequence.blocks(), 0u);
  EXPECT_TRUE(AllZero(sequence.payload(1)));
  ASSERT_OK(sequence.Reserve(10));  // there is room already
  EXPECT_EQ(sequence.block_table().size(), 2u);
  EXPECT_EQ(pool->free_records(), 2u);
}

TEST(Sequence, ReservesAllOrNothing) {
  const auto pool = SmallPool(3);
  Sequence sequence(*pool, kSequenceIdentity);
  ASSERT_OK(sequence.Reserve(5));
  const auto table = sequence.block_table();
  EXPECT_TRUE(FailsWith(sequence.Reserve(16), StatusCode::kOutOfSpace, "16 tokens in 4 blocks"));
  EXPECT_EQ(sequence.block_table(), table);
  EXPECT_EQ(pool->free_records(), 2u);
  EXPECT_OK(sequence.Reserve(15));
}

TEST(Sequence, CountsTokensInItsBlocks) {
  const auto pool = SmallPool(4);
  Sequence sequence(*pool, kSequenceIdentity);
  ASSERT_OK(sequence.Reserve(20));
  sequence.Advance(7);
  EXPECT_EQ(sequence.cached_tokens(), 7u);
  EXPECT_EQ(sequence.blocks(), 2u);
  EXPECT_EQ(sequence.TokensInBlock(0), 5u);
  EXPECT_EQ(sequence.TokensInBlock(1), 2u);
  EXPECT_EQ(sequence.TokensInBlock(2), 0u);
  sequence.Advance(3);
  EXPECT_EQ(sequence.blocks(), 2u);
  EXPECT_EQ(sequence.TokensInBlock(1), 5u);
}

TEST(Sequence, HeadersSayWhatABlockHolds) {
  const auto pool = SmallPool(2);
  Sequence sequence(*pool, kSequenceIdentity);
  ASSERT_OK(sequence.Reserve(8));
  sequence.Advance(8);
  const RecordHeader header = sequence.HeaderOf(1, 42);
  EXPECT_EQ(header.id, (RecordId{{kSequenceIdentity.model_fingerprint, 77, 1}, 42}));
  EXPECT_EQ(header.tokens_used, 3u);
  EXPECT_EQ(header.first_position, 5u);
  EXPECT_EQ(header.rope_identity, 5u);
  EXPECT_EQ(header.geometry, TinyGeometry());
}

TEST(Sequence, ABlockIsStoredUntilItChanges) {
  const auto pool = SmallPool(2);
  Sequence sequence(*pool, kSequenceIdentity);
  ASSERT_OK(sequence.Reserve(10));
  sequence.Advance(8);
  EXPECT_EQ(sequence.StoredAs(0, kStore), std::nullopt);
  for (uint64_t block : {0, 1}) sequence.MarkStored(block, StoredNow(sequence, block, 42));
  EXPECT_EQ(sequence.StoredAs(1, kStore), StoredNow(sequence, 1, 42));
  EXPECT_EQ(sequence.StoredAs(1, kOtherStore), std::nullopt);
  sequence.Advance(1);
  EXPECT_NE(sequence.StoredAs(0, kStore), std::nullopt);
  EXPECT_EQ(sequence.StoredAs(1, kStore), std::nullopt);
  EXPECT_EQ(sequence.LastGeneration(1), 42u);
}

TEST(Sequence, ASealThatWasNeverStoredStillUsesItsGenerationUp) {
  const auto pool = SmallPool(1);
  Sequence sequence(*pool, kSequenceIdentity);
  ASSERT_OK(sequence.Reserve(5));
  sequence.Advance(5);
  EXPECT_EQ(sequence.LastGeneration(0), 0u);
  sequence.MarkSealed(0, 50);
  EXPECT_EQ(sequence.LastGeneration(0), 50u);
  EXPECT_EQ(sequence.StoredAs(0, kStore), std::nullopt);
  sequence.MarkStored(0, StoredNow(sequence, 0, 50));
  EXPECT_EQ(sequence.LastGeneration(0), 50u);
}

TEST(Sequence, TakesOverRestoredBlocksAndGrowsOn) {
  const auto pool = SmallPool(3);
  Sequence sequence(*pool, kSequenceIdentity);
  for (uint32_t tokens : {5u, 2u}) {
    ASSERT_OK_AND_ASSIGN(const uint32_t record, pool->Allocate(BlockPool::Contents::kAsItIs));
    StoredBlock stored;
    stored.id.generation = 40 + tokens;
    stored.tokens_used = tokens;
    stored.store_uuid = kStore;
    sequence.AdoptBlock(record, stored);
  }
  EXPECT_EQ(sequence.cached_tokens(), 7u);
  EXPECT_NE(sequence.StoredAs(1, kStore), std::nullopt);
  EXPECT_EQ(sequence.LastGeneration(1), 42u);
  ASSERT_OK(sequence.Reserve(11));
  sequence.Advance(4);
  EXPECT_EQ(sequence.StoredAs(1, kStore), std::nullopt);
  EXPECT_EQ(sequence.StoredAs(2, kStore), std::nullopt);
}

TEST(Sequence, GivesItsRecordsBack) {
  const auto pool = SmallPool(4);
  {
    Sequence sequence(*pool, kSequenceIdentity);
    ASSERT_OK(sequence.Reserve(20));
    const Sequence moved = std::move(sequence);
    EXPECT_EQ(pool->free_records(), 0u);
    EXPECT_EQ(moved.block_table().size(), 4u);
  }
  EXPECT_EQ(pool->free_records(), 4u);
}

TEST(SequenceDeathTest, WrongUseIsAProgrammingError) {
  const auto pool = SmallPool(2);
  EXPECT_DEATH(Sequence(*pool, SequenceIdentity{}), "check failed");  // sequence id 0
  Sequence sequence(*pool, kSequenceIdentity);
  ASSERT_OK(sequence.Reserve(5));
  EXPECT_DEATH(sequence.Advance(6), "check failed");
  sequence.Advance(5);
  sequence.MarkSealed(0, 9);
  EXPECT_DEATH(sequence.MarkSealed(0, 9), "check failed");
}

}  // namespace
}  // namespace kvbed
