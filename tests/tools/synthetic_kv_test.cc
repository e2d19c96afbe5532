// The data that a benchmark without a model writes.
#include "tools/bench/synthetic_kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "offload/block_pool.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

constexpr KvGeometry kGeometry{.layers = 3, .kv_heads = 2, .head_dim = 64, .block_tokens = 16};

class SyntheticKvTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(pool_, BlockPool::Create(kGeometry, 4)); }
  // The payloads of a sequence of so many tokens, one after the other.
  std::vector<std::byte> Data(uint64_t seed, uint64_t round, uint64_t tokens) {
    auto kv = SyntheticKv::Create(kGeometry, seed);
    EXPECT_OK(kv);
    Sequence sequence = Filled(*kv, round, tokens);
    std::vector<std::byte> data;
    for (uint64_t block = 0; block < sequence.blocks(); ++block) {
      const Bytes payload = sequence.payload(block);
      data.insert(data.end(), payload.begin(), payload.end());
    }
    return data;
  }
  Sequence Filled(const SyntheticKv& kv, uint64_t round, uint64_t tokens) {
    Sequence sequence(*pool_, {.sequence_id = 1});
    EXPECT_OK(sequence.Reserve(tokens));
    sequence.Advance(tokens);
    kv.Fill(sequence, round);
    return sequence;
  }

  std::unique_ptr<BlockPool> pool_;
};

TEST_F(SyntheticKvTest, IsTheSameForTheSameSeedAndRoundOnly) {
  const auto data = Data(1, 0, 64);
  EXPECT_EQ(data, Data(1, 0, 64));
  EXPECT_NE(data, Data(2, 0, 64));
  EXPECT_NE(data, Data(1, 1, 64));
}

TEST_F(SyntheticKvTest, HasNoPageTwice) {
  ASSERT_OK_AND_ASSIGN(const SyntheticKv kv, SyntheticKv::Create(kGeometry, 1));
  Sequence sequence = Filled(kv, 0, 64);
  EXPECT_EQ(DuplicatePagePercent(sequence), 0);

  // The check sees a page that is there twice.
  const MutableBytes first = sequence.payload(0), second = sequence.payload(1);
  std::copy_n(first.begin(), kPageBytes, second.begin());
  EXPECT_GT(DuplicatePagePercent(sequence), 0);
}

TEST_F(SyntheticKvTest, LeavesRowsWithoutATokenZero) {
  ASSERT_OK_AND_ASSIGN(const SyntheticKv kv, SyntheticKv::Create(kGeometry, 1));
  Sequence sequence = Filled(kv, 0, 21);
  const Bytes tail = sequence.payload(1);
  for (uint32_t layer = 0; layer < kGeometry.layers; ++layer) {
    for (KvPart part : {KvPart::kK, KvPart::kV}) {
      for (uint32_t head = 0; head < kGeometry.kv_heads; ++head) {
        const Bytes rows =
            tail.subspan(kGeometry.HeadOffset(layer, part, head), kGeometry.head_bytes());
        EXPECT_FALSE(AllZero(rows.first(rows.size() / 16 * 5)));
        EXPECT_TRUE(AllZero(rows.subspan(rows.size() / 16 * 5)));
      }
    }
  }
}

}  // namespace
}  // namespace kvbed
