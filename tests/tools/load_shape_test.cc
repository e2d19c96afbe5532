// How a context is cut for queues and rounds: nothing is lost, no block is split, the pool
// suffices.
#include "tools/bench/load_shape.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

const KvGeometry kLoadGeometry{.layers = 2, .kv_heads = 1, .head_dim = 64, .block_tokens = 16};

uint64_t TokensOf(const LoadShape& shape, uint32_t sequence) {
  uint64_t tokens = 0;
  for (const auto& round : shape.rounds) {
    for (const LoadPart& part : round) {
      if (part.sequence == sequence) tokens += part.tokens;
    }
  }
  return tokens;
}

TEST(ShapeLoad, OfOneQueueAndAPoolThatHoldsAllIsOnePart) {
  const LoadShape shape = ShapeLoad(kLoadGeometry, 1000, 1, 1, 63).value();
  ASSERT_EQ(shape.rounds.size(), 1);
  EXPECT_EQ(shape.rounds[0], (std::vector<LoadPart>{{0, 1000}}));
  EXPECT_EQ(shape.pool_records(kLoadGeometry), 63);
}

TEST(ShapeLoad, LosesNoTokenAndNeverNeedsMoreThanThePool) {
  for (const uint64_t ctx : {1, 15, 16, 17, 255, 1000, 4096}) {
    for (const uint32_t sequences : {1, 3}) {
      for (const uint32_t numjobs : {1, 2, 5}) {
        for (const uint64_t records : {15, 16, 40, 1000}) {
          const LoadShape shape =
              ShapeLoad(kLoadGeometry, ctx, sequences, numjobs, records).value();
          for (uint32_t i = 0; i < sequences; ++i) EXPECT_EQ(TokensOf(shape, i), ctx);
          EXPECT_LE(shape.pool_records(kLoadGeometry), records);
          for (const auto& round : shape.rounds) {
            EXPECT_FALSE(round.empty());
            EXPECT_LE(round.size(), shape.workers());
          }
        }
      }
    }
  }
}

TEST(ShapeLoad, PartsEndOnBlocksExceptTheLast) {
  const LoadShape shape = ShapeLoad(kLoadGeometry, 100, 1, 3, 4).value();
  uint64_t left = 100;
  for (const auto& round : shape.rounds) {
    for (const LoadPart& part : round) {
      left -= part.tokens;
      EXPECT_TRUE(left == 0 || part.tokens % kLoadGeometry.block_tokens == 0) << part.tokens;
    }
  }
  EXPECT_EQ(left, 0);
}

TEST(ShapeLoad, GoesThroughAPoolThatHoldsAllAtOnce) {
  // 7 blocks, which neither 2 nor 3 queues share evenly.
  for (const uint32_t numjobs : {1, 2, 3, 7}) {
    const LoadShape shape = ShapeLoad(kLoadGeometry, 100, 2, numjobs, 14).value();
    EXPECT_EQ(shape.rounds.size(), 1) << numjobs;
    EXPECT_EQ(shape.pool_records(kLoadGeometry), 14) << numjobs;
  }
  EXPECT_EQ(ShapeLoad(kLoadGeometry, 100, 2, 2, 13).value().rounds.size(), 2);
}

TEST(ShapeCell, OfSeveralSequencesIsOneRoundUnlessThePoolIsSmaller) {
  BenchCell cell;
  cell.geometry = kLoadGeometry;
  cell.ctx_tokens = 100;
  cell.sequences = 2;
  cell.from_model = true;
  EXPECT_EQ(ShapeCell(cell).value().rounds.size(), 1);
  cell.pool_bytes = 2 * kLoadGeometry.record_bytes();
  EXPECT_EQ(ShapeCell(cell).value().rounds.size(), 7);
  cell.pool_bytes = 1;
  EXPECT_TRUE(FailsWith(ShapeCell(cell).status(), StatusCode::kInvalidArgument, "0 records"));
}

TEST(ShapeLoad, RefusesAPoolWithoutARecordForEachQueue) {
  EXPECT_TRUE(FailsWith(ShapeLoad(kLoadGeometry, 100, 2, 2, 3).status(),
                        StatusCode::kInvalidArgument, "4 queues"));
}

}  // namespace
}  // namespace kvbed
