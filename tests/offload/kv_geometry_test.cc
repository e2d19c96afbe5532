#include "offload/kv_geometry.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

constexpr KvGeometry kSmolLm2 = {
    .layers = 30, .kv_heads = 3, .head_dim = 64, .dtype = DType::kBf16, .block_tokens = 16};

TEST(KvGeometry, SizesOfSmolLm2) {
  EXPECT_EQ(kSmolLm2.kv_bytes_per_token(), 23040u);
  EXPECT_EQ(kSmolLm2.payload_bytes(), 90u * 4096);
  EXPECT_EQ(kSmolLm2.record_bytes(), 372736u);
}

TEST(KvGeometry, PayloadsThatAreNoMultipleOfAPageArePadded) {
  KvGeometry four = kSmolLm2;
  four.block_tokens = 4;
  EXPECT_EQ(four.payload_bytes(), 92160u);
  EXPECT_EQ(four.record_bytes(), 4096u + 94208);
}

TEST(KvGeometry, BlocksForTokens) {
  EXPECT_EQ(kSmolLm2.BlocksFor(0), 0u);
  EXPECT_EQ(kSmolLm2.BlocksFor(1), 1u);
  EXPECT_EQ(kSmolLm2.BlocksFor(16), 1u);
  EXPECT_EQ(kSmolLm2.BlocksFor(17), 2u);
}

// [layer][K|V][kv_head][token][head_dim], each index counted by hand.
TEST(KvGeometry, AnElementLiesWhereTheLayoutSays) {
  const uint64_t row = 64 * 2, head = 16 * row, part = 3 * head;
  EXPECT_EQ(kSmolLm2.ElementOffset({0, KvPart::kK, 0, 0, 1}), 2u);
  EXPECT_EQ(kSmolLm2.ElementOffset({0, KvPart::kK, 0, 1, 0}), row);
  EXPECT_EQ(kSmolLm2.ElementOffset({0, KvPart::kK, 1, 0, 0}), head);
  EXPECT_EQ(kSmolLm2.ElementOffset({0, KvPart::kV, 0, 0, 0}), part);
  EXPECT_EQ(kSmolLm2.ElementOffset({1, KvPart::kK, 0, 0, 0}), 2 * part);
  EXPECT_EQ(kSmolLm2.ElementOffset({29, KvPart::kV, 2, 15, 63}), kSmolLm2.payload_bytes() - 2);
}

TEST(KvGeometry, OffsetsAndCoordinatesGoBothWays) {
  std::mt19937_64 random(11);
  const auto pick = [&](uint32_t max) { return static_cast<uint32_t>(1 + random() % max); };
  for (int round = 0; round < 200; ++round) {
    const KvGeometry geometry = {.layers = pick(6),
                                 .kv_heads = pick(5),
                                 .head_dim = pick(9),
                                 .dtype = random() % 2 ? DType::kBf16 : DType::kFp32,
                                 .block_tokens = pick(7)};
    ASSERT_OK(geometry.Validate());
    uint64_t offset = 0;
    while (offset < geometry.payload_bytes()) {
      const KvCoordinate at = geometry.CoordinateAt(offset);
      ASSERT_EQ(geometry.ElementOffset(at), offset);
      ASSERT_EQ(geometry.CoordinateAt(offset + geometry.element_bytes() - 1), at);
      offset += geometry.element_bytes();
    }
  }
}

TEST(KvGeometry, CountsOfZeroAndAbsurdOnesAreRefused) {
  for (uint32_t bad : {0u, (1u << 20) + 1, UINT32_MAX}) {
    for (uint32_t KvGeometry::*field : {&KvGeometry::layers, &KvGeometry::kv_heads,
                                        &KvGeometry::head_dim, &KvGeometry::block_tokens}) {
      KvGeometry geometry = kSmolLm2;
      geometry.*field = bad;
      EXPECT_TRUE(FailsWith(geometry.Validate(), StatusCode::kInvalidArgument));
    }
  }
  KvGeometry geometry = kSmolLm2;
  geometry.dtype = static_cast<DType>(5);
  EXPECT_TRUE(FailsWith(geometry.Validate(), StatusCode::kInvalidArgument, "dtype id 5"));
}

TEST(KvGeometry, ARecordIsAtMostAGibibyte) {
  KvGeometry geometry = {
      .layers = 1, .kv_heads = 1, .head_dim = 1024, .dtype = DType::kFp32, .block_tokens = 131071};
  ASSERT_OK(geometry.Validate());
  EXPECT_EQ(geometry.record_bytes(), (uint64_t{1} << 30) - 4096);
  geometry.block_tokens = 131072;
  EXPECT_TRUE(FailsWith(geometry.Validate(), StatusCode::kInvalidArgument, "--block-tokens"));
  // A product that would wrap 64 bits.
  geometry = {.layers = 1 << 20,
              .kv_heads = 1 << 20,
              .head_dim = 1 << 20,
              .dtype = DType::kFp32,
              .block_tokens = 1 << 20};
  EXPECT_FALSE(geometry.Validate().ok());
}

TEST(DType, NamesGoBothWays) {
  EXPECT_EQ(*ParseDType("bf16"), DType::kBf16);
  EXPECT_EQ(*ParseDType("fp32"), DType::kFp32);
  EXPECT_EQ(DTypeName(DType::kFp32), "fp32");
  EXPECT_TRUE(FailsWith(ParseDType("fp16").status(), StatusCode::kInvalidArgument, "bf16, fp32"));
  for (DType dtype : {DType::kBf16, DType::kFp32, DType::kFp8, DType::kInt8}) {
    EXPECT_EQ(*ParseStoredDType(DTypeName(dtype)), dtype);
  }
  // No model computes in them.
  EXPECT_FALSE(ParseDType("fp8").ok());
  EXPECT_FALSE(ParseDType("int8").ok());
  EXPECT_TRUE(FailsWith(ParseStoredDType("").status(), StatusCode::kInvalidArgument, "fp8, int8"));
}

}  // namespace
}  // namespace kvbed
