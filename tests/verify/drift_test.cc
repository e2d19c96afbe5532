#include "verify/drift.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/status_matchers.h"
#include "tests/verify/filled_sequence.h"
#include "verify/kv_image.h"

namespace kvbed {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class DriftTest : public testing::TestWithParam<DType> {
 protected:
  // bf16 patterns are the upper half of fp32's.
  void Set(FilledSequence& filled, const KvCoordinate& at, float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (GetParam() == DType::kFp32) {
      filled.Set(at, bits);
    } else {
      filled.Set(at, static_cast<uint16_t>(bits >> 16));
    }
  }
  KvDrift Measure(const FilledSequence& cached, const FilledSequence& recomputed,
                  uint64_t prompt = 9) {
    auto drift =
        MeasureKvDrift(KvView::Of(*cached.sequence), KvView::Of(*recomputed.sequence), 13, prompt);
    EXPECT_OK(drift);
    return drift.ok() ? *drift : KvDrift{};
  }
  double Step() const { return GetParam() == DType::kBf16 ? 0x1p-7 : 0x1p-23; }

  FilledSequence cached_ = MakeFilled(SmallGeometry(5, GetParam()), 13);
  FilledSequence recomputed_ = MakeFilled(SmallGeometry(5, GetParam()), 13);
};

TEST_P(DriftTest, EqualCachesDoNotDrift) {
  const KvDrift drift = Measure(cached_, recomputed_);
  EXPECT_EQ(drift.total().elements, 13u * 3 * 2 * 2 * 4);
  EXPECT_EQ(drift.total().identical, drift.total().elements);
  EXPECT_EQ(drift.total().identical_pct(), 100);
  EXPECT_EQ(drift.total().max_abs, 0);
  EXPECT_EQ(drift.total().max_ulp, 0u);
  EXPECT_FALSE(drift.first_layer);
  EXPECT_EQ(drift.layers.size(), 3u);
  EXPECT_GT(drift.k_abs_max, 1);
  EXPECT_LT(drift.k_abs_max, 2);
}

TEST_P(DriftTest, BlockSizesMayDiffer) {
  const FilledSequence other = MakeFilled(SmallGeometry(7, GetParam()), 13);
  EXPECT_EQ(Measure(cached_, other).total().identical_pct(), 100);
}

TEST_P(DriftTest, OneStepIsOneUlp) {
  Set(cached_, {1, KvPart::kV, 1, 10, 2}, 1.0f);
  Set(recomputed_, {1, KvPart::kV, 1, 10, 2}, static_cast<float>(1.0 + Step()));
  const KvDrift drift = Measure(cached_, recomputed_);
  EXPECT_EQ(drift.first_layer, 1u);
  EXPECT_EQ(drift.total().identical, drift.total().elements - 1);
  EXPECT_EQ(drift.total().max_ulp, 1u);
  EXPECT_EQ(drift.total().max_abs, Step());
  EXPECT_EQ(drift.decode().max_ulp, 1u);
  EXPECT_EQ(drift.prompt().max_ulp, 0u);
  EXPECT_EQ(drift.v().max_ulp, 1u);
  EXPECT_EQ(drift.k().max_ulp, 0u);
  EXPECT_EQ(drift.layers[1].v_decode.identical, drift.layers[1].v_decode.elements - 1);
  EXPECT_EQ(drift.layers[1].v_decode.elements, 4u * 2 * 4);
  EXPECT_EQ(drift.layers[0].v().identical_pct(), 100);
}

TEST_P(DriftTest, PromptAndDecodePositionsAreApart) {
  Set(cached_, {0, KvPart::kK, 0, 8, 0}, 1.0f);
  Set(recomputed_, {0, KvPart::kK, 0, 8, 0}, 1.5f);
  Set(cached_, {2, KvPart::kK, 0, 9, 0}, 1.0f);
  Set(recomputed_, {2, KvPart::kK, 0, 9, 0}, 1.25f);
  const KvDrift drift = Measure(cached_, recomputed_);
  EXPECT_EQ(drift.prompt().max_abs, 0.5);
  EXPECT_EQ(drift.decode().max_abs, 0.25);
  EXPECT_EQ(drift.layers[0].k_prompt.max_abs, 0.5);
  EXPECT_EQ(drift.layers[0].k_decode.max_abs, 0);
  EXPECT_EQ(drift.first_layer, 0u);
  EXPECT_EQ(Measure(cached_, recomputed_, 13).decode().elements, 0u);
  EXPECT_EQ(Measure(cached_, recomputed_, 0).prompt().elements, 0u);
}

TEST_P(DriftTest, NamesTheFirstPositionThatDiffersInAnyLayer) {
  EXPECT_EQ(Measure(cached_, recomputed_).first_position, std::nullopt);
  Set(recomputed_, {0, KvPart::kV, 1, 12, 3}, 7.0f);
  Set(recomputed_, {1, KvPart::kK, 0, 10, 0}, 7.0f);
  EXPECT_EQ(Measure(cached_, recomputed_).first_position, 10u);
  EXPECT_EQ(Measure(cached_, recomputed_).first_decode_position, 10u);
  EXPECT_EQ(Measure(cached_, recomputed_, 11).first_decode_position, 12u);
  Set(recomputed_, {2, KvPart::kK, 1, 6, 1}, 7.0f);
  Set(recomputed_, {2, KvPart::kK, 1, 8, 1}, 7.0f);
  const KvDrift drift = Measure(cached_, recomputed_);
  EXPECT_EQ(drift.first_layer, 0u) << "the first layer and the first position may be of two places";
  EXPECT_EQ(drift.first_position, 6u);
  EXPECT_EQ(drift.first_decode_position, 10u);
}

TEST_P(DriftTest, NoShareThatDiffersIsNoneAtAll) {
  EXPECT_EQ(Measure(cached_, recomputed_).total().differing_pct(), 0);
  Set(recomputed_, {1, KvPart::kK, 0, 10, 0}, 7.0f);
  EXPECT_GT(Measure(cached_, recomputed_).total().differing_pct(), 0);
  EXPECT_EQ(DriftPart{}.differing_pct(), 0);
  EXPECT_GT((DriftPart{.elements = uint64_t{1} << 60, .identical = (uint64_t{1} << 60) - 1})
                .differing_pct(),
            0);
}

TEST_P(DriftTest, UlpsCountAcrossZero) {
  Set(cached_, {0, KvPart::kK, 0, 0, 0}, 0.0f);
  Set(recomputed_, {0, KvPart::kK, 0, 0, 0}, -0.0f);
  const KvDrift drift = Measure(cached_, recomputed_);
  EXPECT_EQ(drift.total().identical, drift.total().elements - 1);  // the bits differ
  EXPECT_EQ(drift.total().max_ulp, 0u);
  const float smallest = std::bit_cast<float>(GetParam() == DType::kBf16 ? 0x00010000u : 1u);
  Set(cached_, {0, KvPart::kK, 0, 0, 0}, smallest);
  Set(recomputed_, {0, KvPart::kK, 0, 0, 0}, -smallest);
  EXPECT_EQ(Measure(cached_, recomputed_).total().max_ulp, 2u);
}

TEST_P(DriftTest, InfinitiesAndNansAreCountedApart) {
  Set(cached_, {0, KvPart::kK, 0, 0, 0}, kNan);
  Set(cached_, {0, KvPart::kK, 0, 1, 0}, kInfinity);
  Set(recomputed_, {0, KvPart::kV, 0, 2, 0}, -kInfinity);
  Set(recomputed_, {0, KvPart::kK, 0, 3, 0}, kInfinity);
  Set(cached_, {0, KvPart::kK, 0, 3, 0}, kInfinity);  // the same on both sides
  const KvDrift drift = Measure(cached_, recomputed_);
  EXPECT_EQ(drift.total().non_finite, 3u);
  EXPECT_EQ(drift.total().identical, drift.total().elements - 3);
  EXPECT_EQ(drift.total().max_abs, 0);
  EXPECT_EQ(drift.total().max_ulp, 0u);
  EXPECT_TRUE(std::isfinite(drift.k_abs_max));
}

TEST_P(DriftTest, TheLargestKIsTheCachedRuns) {
  Set(cached_, {1, KvPart::kK, 1, 12, 3}, -96.0f);
  Set(cached_, {1, KvPart::kV, 1, 12, 3}, 200.0f);
  Set(recomputed_, {1, KvPart::kK, 0, 0, 0}, 300.0f);
  EXPECT_EQ(Measure(cached_, recomputed_).k_abs_max, 96);
}

TEST_P(DriftTest, OnlyTheFirstTokensAreCompared) {
  Set(recomputed_, {0, KvPart::kK, 0, 12, 0}, 7.0f);
  const auto drift =
      MeasureKvDrift(KvView::Of(*cached_.sequence), KvView::Of(*recomputed_.sequence), 12, 9);
  ASSERT_OK(drift);
  EXPECT_EQ(drift->total().identical_pct(), 100);
}

TEST_P(DriftTest, WhatCanNotBeComparedIsRefused) {
  const KvView cached = KvView::Of(*cached_.sequence);
  const auto status = [&](const KvView& other, uint64_t tokens, uint64_t prompt) {
    return MeasureKvDrift(cached, other, tokens, prompt).status();
  };
  EXPECT_TRUE(FailsWith(status(cached, 14, 9), StatusCode::kInvalidArgument, "14 tokens"));
  EXPECT_TRUE(FailsWith(status(cached, 13, 14), StatusCode::kInvalidArgument));
  KvGeometry geometry = SmallGeometry(5, GetParam());
  geometry.head_dim = 8;
  const FilledSequence other = MakeFilled(geometry, 13);
  EXPECT_TRUE(FailsWith(status(KvView::Of(*other.sequence), 13, 9), StatusCode::kInvalidArgument));
}

INSTANTIATE_TEST_SUITE_P(DTypes, DriftTest, testing::Values(DType::kBf16, DType::kFp32),
                         [](const auto& test) { return std::string(DTypeName(test.param)); });

TEST(DriftPart, OfNothingIsIdentical) { EXPECT_EQ(DriftPart{}.identical_pct(), 100); }

TEST(DTypeStep, GrowsWithTheValue) {
  EXPECT_EQ(DTypeStep(DType::kBf16, 1.0), 0x1p-7);
  EXPECT_EQ(DTypeStep(DType::kBf16, -20.5), 0.125);
  EXPECT_EQ(DTypeStep(DType::kFp32, 1.99), 0x1p-23);
  EXPECT_EQ(DTypeStep(DType::kFp32, 0), 0x1p-149);
  EXPECT_GT(DTypeStep(DType::kBf16, kNan), 0);
}

// Logits of ids 0, 1, 2.
std::optional<TokenFlip> Flip(std::vector<float> cached, std::vector<float> recomputed,
                              DType dtype = DType::kBf16) {
  return FindFlip(40, cached, recomputed, dtype);
}

TEST(FindFlip, NoneWhenBothPickTheSame) {
  EXPECT_EQ(Flip({1, 3, 2}, {0, 9, 8}), std::nullopt);
  EXPECT_EQ(Flip({1, 3, 3}, {0, 9, 8}), std::nullopt);  // the lowest id among equals
}

TEST(FindFlip, NamesBothTokensAndTheGap) {
  const auto flip = Flip({1, 20.5f, 20.25f}, {1, 20.25f, 20.375f});
  ASSERT_TRUE(flip);
  EXPECT_EQ(flip->position, 40u);
  EXPECT_EQ(flip->cached_id, 1);
  EXPECT_EQ(flip->cached_logit, 20.5f);
  EXPECT_EQ(flip->cached_logit_of_recomputed_id, 20.25f);
  EXPECT_EQ(flip->recomputed_id, 2);
  EXPECT_EQ(flip->recomputed_logit, 20.375f);
  EXPECT_EQ(flip->recomputed_logit_of_cached_id, 20.25f);
  EXPECT_EQ(flip->top2_gap, 0.125);
  EXPECT_EQ(flip->gap_steps, 1);
  EXPECT_EQ(Flip({1, 20.5f, 20.25f}, {1, 20.25f, 20.375f}, DType::kFp32)->gap_steps, 65536);
}

TEST(FindFlip, TheRunnerUpOfTheFullPassNeedNotBeTheCachedToken) {
  const auto flip = Flip({3, 2, 1}, {1, 4, 6});
  EXPECT_EQ(flip->cached_id, 0);
  EXPECT_EQ(flip->recomputed_id, 2);
  EXPECT_EQ(flip->top2_gap, 2);
}

TEST(FindFlip, NansAreNeverPicked) {
  EXPECT_EQ(Flip({kNan, 3, 2}, {0, 9, kNan}), std::nullopt);
  EXPECT_EQ(Flip({kNan, 3, 2}, {0, 1, 4})->recomputed_id, 2);
  const auto flip = Flip({5, 3, 2}, {kNan, kNan, 4});
  EXPECT_EQ(flip->recomputed_id, 2);
  EXPECT_EQ(flip->top2_gap, std::nullopt);
  EXPECT_EQ(Flip({5, 3, 2}, {1, kInfinity, 4})->gap_steps, std::nullopt);
}

}  // namespace
}  // namespace kvbed
