#include "verify/drift_arms.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvbed {
namespace {

DriftArm Arm(DriftFactor factor, uint64_t ctx, uint32_t chunk, uint32_t threads) {
  return {factor, {ctx, chunk, threads, "torch"}};
}

TEST(DriftArms, ChangeOneFactorOfTheBaseAtATime) {
  const auto arms = PlanDriftArms({.ctx_tokens = {88, 104, 96},
                                   .prefill_chunks = {64, 1},
                                   .threads = {2, 1, 4},
                                   .kernels = {"torch"}});
  EXPECT_EQ(arms,
            (std::vector<DriftArm>{
                Arm(DriftFactor::kBase, 104, 64, 2), Arm(DriftFactor::kContext, 88, 64, 2),
                Arm(DriftFactor::kContext, 96, 64, 2), Arm(DriftFactor::kPrefillChunk, 104, 1, 2),
                Arm(DriftFactor::kThreads, 104, 64, 1), Arm(DriftFactor::kThreads, 104, 64, 4)}));
  for (const DriftArm& arm : arms) {
    const DriftSettings& base = arms.front().settings;
    const int changed = (arm.settings.ctx_tokens != base.ctx_tokens) +
                        (arm.settings.prefill_chunk != base.prefill_chunk) +
                        (arm.settings.threads != base.threads) +
                        (arm.settings.kernels != base.kernels);
    EXPECT_EQ(changed, arm.factor == DriftFactor::kBase ? 0 : 1);
  }
}

TEST(DriftArms, AValueThatStandsTwiceIsOneArm) {
  const auto arms = PlanDriftArms(
      {.ctx_tokens = {8, 8, 4, 4}, .prefill_chunks = {2, 2}, .threads = {1}, .kernels = {"torch"}});
  EXPECT_EQ(arms.size(), 2u);
}

TEST(DriftArms, AnotherSetOfKernelsIsAFactorToo) {
  const auto arms = PlanDriftArms({.ctx_tokens = {8, 4},
                                   .prefill_chunks = {2},
                                   .threads = {1},
                                   .kernels = {"native", "native", "torch"}});
  ASSERT_EQ(arms.size(), 3u);
  EXPECT_EQ(arms[0], (DriftArm{DriftFactor::kBase, {8, 2, 1, "native"}}));
  EXPECT_EQ(arms[1], (DriftArm{DriftFactor::kContext, {4, 2, 1, "native"}}));
  EXPECT_EQ(arms[2], (DriftArm{DriftFactor::kKernels, {8, 2, 1, "torch"}}));
  EXPECT_EQ(DriftFactorName(arms[2].factor), "kernels");
  EXPECT_EQ(arms[2].value(), DriftValue("torch"));
}

TEST(DriftArms, NameTheirFactorAndValue) {
  EXPECT_EQ(DriftFactorName(DriftFactor::kPrefillChunk), "prefill_chunk");
  EXPECT_EQ(Arm(DriftFactor::kBase, 8, 4, 2).value(), std::nullopt);
  EXPECT_EQ(Arm(DriftFactor::kContext, 8, 4, 2).value(), DriftValue(uint64_t{8}));
  EXPECT_EQ(Arm(DriftFactor::kPrefillChunk, 8, 4, 2).value(), DriftValue(uint64_t{4}));
  EXPECT_EQ(Arm(DriftFactor::kThreads, 8, 4, 2).value(), DriftValue(uint64_t{2}));
}

class DriftBeginTest : public ::testing::Test {
 protected:
  // One layer, of which so many of ten elements differ in prompt and decode positions, the first at
  // `position`.
  static KvDrift Drift(uint64_t prompt, uint64_t decode, std::optional<uint64_t> position) {
    KvDrift kv;
    LayerDrift layer;
    layer.k_prompt = {.elements = 10, .identical = 10 - prompt};
    layer.v_decode = {.elements = 10, .identical = 10 - decode};
    kv.layers = {layer};
    kv.first_position = position;
    if (position) kv.first_layer = 0;
    return kv;
  }
  const KvDrift same_ = Drift(0, 0, std::nullopt);
  const KvDrift decode_ = Drift(0, 1, 97);
  const KvDrift both_ = Drift(3, 4, 5);
};

TEST_F(DriftBeginTest, IsTheShortestContextWhateverTheOrder) {
  const std::vector<ContextDrift> contexts = {{104, both_, std::nullopt},
                                              {88, same_, std::nullopt},
                                              {96, decode_, 99},
                                              {112, same_, std::nullopt}};
  const DriftBegin begin = FindDriftBegin(contexts);
  EXPECT_EQ(begin, (DriftBegin{.contexts = 4,
                               .differing = 2,
                               .shortest = 88,
                               .ctx_tokens = 96,
                               .position = 97,
                               .layer = 0,
                               .prompt_ctx_tokens = 104,
                               .decode_ctx_tokens = 96}));
}

TEST_F(DriftBeginTest, IsNowhereWhenAllIsTheSame) {
  const std::vector<ContextDrift> contexts = {{88, same_, std::nullopt}, {96, same_, std::nullopt}};
  EXPECT_EQ(FindDriftBegin(contexts), (DriftBegin{.contexts = 2,
                                                  .differing = 0,
                                                  .shortest = 88,
                                                  .ctx_tokens = {},
                                                  .position = {},
                                                  .layer = {},
                                                  .prompt_ctx_tokens = {},
                                                  .decode_ctx_tokens = {}}));
}

TEST_F(DriftBeginTest, ATokenThatFlipsAloneIsABeginToo) {
  const std::vector<ContextDrift> contexts = {{88, same_, 90}, {96, both_, 3}};
  const DriftBegin begin = FindDriftBegin(contexts);
  EXPECT_EQ(begin.ctx_tokens, 88u);
  EXPECT_EQ(begin.position, 90u);
  EXPECT_EQ(begin.layer, std::nullopt);
  EXPECT_EQ(FindDriftBegin(std::span(contexts).subspan(1)).position, 3u)
      << "the flip is before the first element that differs";
}

}  // namespace
}  // namespace kvbed
