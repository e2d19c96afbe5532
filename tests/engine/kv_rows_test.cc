#include "engine/kv_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

constexpr uint32_t kLayers = 2;
constexpr uint32_t kKvHeads = 3;
constexpr uint32_t kHeadDim = 4;

// What the element at this place is made of, so that any mix-up of places shows.
float ValueAt(uint32_t layer, KvPart part, uint32_t head, uint64_t token, uint32_t dim) {
  const uint32_t part_index = static_cast<uint32_t>(part);
  return static_cast<float>(
      (((layer * 2 + part_index) * kKvHeads + head) * 100000 + token * kHeadDim) + dim + 1);
}

// [kv_head][count][head_dim] of the positions from `first` on.
std::vector<float> Rows(uint32_t layer, KvPart part, uint64_t first, uint64_t count) {
  std::vector<float> rows;
  for (uint32_t head = 0; head < kKvHeads; ++head) {
    for (uint64_t token = first; token < first + count; ++token) {
      for (uint32_t dim = 0; dim < kHeadDim; ++dim) {
        rows.push_back(ValueAt(layer, part, head, token, dim));
      }
    }
  }
  return rows;
}

class KvRows : public ::testing::TestWithParam<uint32_t> {
 protected:
  void Open(uint64_t tokens) {
    const KvGeometry geometry = {.layers = kLayers,
                                 .kv_heads = kKvHeads,
                                 .head_dim = kHeadDim,
                                 .dtype = DType::kFp32,
                                 .block_tokens = GetParam()};
    auto pool = BlockPool::Create(geometry, static_cast<uint32_t>(geometry.BlocksFor(tokens)));
    ASSERT_OK(pool);
    pool_ = std::move(*pool);
    sequence_ = std::make_unique<Sequence>(
        *pool_, SequenceIdentity{.model_fingerprint = {}, .sequence_id = 1});
    ASSERT_OK(sequence_->Reserve(tokens));
  }

  void Write(uint64_t first, uint64_t count) {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (KvPart part : {KvPart::kK, KvPart::kV}) {
        const std::vector<float> rows = Rows(layer, part, first, count);
        WriteKvRows(*sequence_, layer, part, first, count, std::as_bytes(std::span(rows)));
      }
    }
  }

  float Element(const KvCoordinate& at, uint64_t block) {
    float value = 0;
    std::memcpy(&value, sequence_->payload(block).data() + pool_->geometry().ElementOffset(at),
                sizeof(value));
    return value;
  }

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<Sequence> sequence_;
};

TEST_P(KvRows, LieInTheRecordsWhereTheLayoutSays) {
  Open(23);
  Write(0, 9);
  Write(9, 1);
  Write(10, 13);
  for (uint64_t token = 0; token < 23; ++token) {
    KvCoordinate at;
    at.layer = 1;
    at.part = KvPart::kV;
    at.kv_head = 2;
    at.token = static_cast<uint32_t>(token % GetParam());
    at.dim = 3;
    EXPECT_EQ(Element(at, token / GetParam()), ValueAt(1, KvPart::kV, 2, token, 3)) << token;
  }
}

TEST_P(KvRows, AreReadBackDense) {
  Open(23);
  Write(0, 20);
  Write(20, 3);
  for (uint64_t tokens : {uint64_t{1}, uint64_t{16}, uint64_t{17}, uint64_t{23}}) {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      std::vector<float> k(kKvHeads * tokens * kHeadDim), v(k.size());
      ReadKvRows(*sequence_, layer, tokens, std::as_writable_bytes(std::span(k)),
                 std::as_writable_bytes(std::span(v)), 1);
      EXPECT_EQ(k, Rows(layer, KvPart::kK, 0, tokens));
      EXPECT_EQ(v, Rows(layer, KvPart::kV, 0, tokens));
    }
  }
}

TEST_P(KvRows, AreReadBackTheSameBySeveralThreads) {
  const uint64_t tokens = 50021;  // enough for threads to be worth it, and divisible by none
  Open(tokens);
  Write(0, tokens);
  std::vector<float> k(kKvHeads * tokens * kHeadDim), v(k.size());
  ReadKvRows(*sequence_, 1, tokens, std::as_writable_bytes(std::span(k)),
             std::as_writable_bytes(std::span(v)), 3);
  EXPECT_TRUE(k == Rows(1, KvPart::kK, 0, tokens));
  EXPECT_TRUE(v == Rows(1, KvPart::kV, 0, tokens));
}

TEST_P(KvRows, AreClearedAndTheirNeighboursKept) {
  Open(23);
  Write(0, 23);
  ClearKvRows(*sequence_, 6, 11);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    std::vector<float> k(kKvHeads * 23 * kHeadDim), v(k.size());
    ReadKvRows(*sequence_, layer, 23, std::as_writable_bytes(std::span(k)),
               std::as_writable_bytes(std::span(v)), 1);
    std::vector<float> expected = Rows(layer, KvPart::kV, 0, 23);
    for (uint32_t head = 0; head < kKvHeads; ++head) {
      const auto row = expected.begin() + (head * 23 + 6) * kHeadDim;
      std::fill(row, row + 11 * kHeadDim, 0.0f);
    }
    EXPECT_EQ(v, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(BlockTokens, KvRows, ::testing::Values(1, 4, 5, 7, 16, 256),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace kvbed
