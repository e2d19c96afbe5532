// Sizes of shapes: parameters and KV bytes, against what the models' makers publish.
#include "engine/model/model_shape.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/model/known_shapes.h"
#include "engine/model/shape_kv.h"
#include "engine/model/shape_weights.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

ModelShape Known(const std::string& name) {
  for (const ModelShape& shape : KnownShapes()) {
    if (shape.name == name) return shape;
  }
  ADD_FAILURE() << "no shape " << name;
  return {};
}

uint64_t KvBytes(const ModelShape& shape, uint64_t tokens, DType dtype = DType::kBf16) {
  return RankKvBytes(shape, *SplitKv(shape, 1), dtype, tokens).value();
}

// Total parameters as Hugging Face's safetensors metadata has them; of deepseek-v3 those of the
// main model, without the multi-token prediction module.
const std::map<std::string, uint64_t> kPublishedParameters = {
    {"smollm2-135m", 134515008},        {"smollm2-360m", 361821120},
    {"smollm2-1.7b", 1711376384},       {"llama2-7b", 6738415616},
    {"llama2-70b", 68976648192},        {"llama3-8b", 8030261248},
    {"llama3-70b", 70553706496},        {"llama3.1-8b", 8030261248},
    {"llama3.1-70b", 70553706496},      {"llama3.1-405b", 405853388800},
    {"llama3.2-1b", 1235814400},        {"llama3.2-3b", 3212749824},
    {"qwen2.5-0.5b", 494032768},        {"qwen2.5-1.5b", 1543714304},
    {"qwen2.5-3b", 3085938688},         {"qwen2.5-7b", 7615616512},
    {"qwen2.5-14b", 14770033664},       {"qwen2.5-32b", 32763876352},
    {"qwen2.5-72b", 72706203648},       {"qwen3-8b", 8190735360},
    {"qwen3-32b", 32762123264},         {"qwen3-30b-a3b", 30532122624},
    {"mistral-7b-v0.1", 7241732096},    {"mistral-7b-v0.3", 7248023552},
    {"mistral-small-24b", 23572403200}, {"mixtral-8x7b", 46702792704},
    {"deepseek-v2-lite", 15706484224},  {"deepseek-v3", 671026419200},
};

TEST(KnownShapes, HaveThePublishedNumbersOfParameters) {
  std::set<std::string> names;
  for (const ModelShape& shape : KnownShapes()) {
    EXPECT_OK(ValidateModelShape(shape)) << shape.name;
    EXPECT_TRUE(names.insert(shape.name).second) << shape.name << " twice";
    ASSERT_TRUE(kPublishedParameters.contains(shape.name)) << shape.name;
    EXPECT_EQ(WeightParameters(shape), kPublishedParameters.at(shape.name)) << shape.name;
  }
  EXPECT_EQ(names.size(), kPublishedParameters.size());
}

// Each part counts: without it the number of some model is another one.
TEST(WeightParameters, EachPartCounts) {
  const auto differs = [](ModelShape shape, auto change) {
    const auto before = WeightParameters(shape);
    change(shape);
    return WeightParameters(shape) != before;
  };
  EXPECT_TRUE(differs(Known("llama3.2-1b"), [](auto& s) { s.tie_word_embeddings = false; }));
  EXPECT_TRUE(differs(Known("qwen2.5-7b"), [](auto& s) { s.qkv_bias = false; }));
  EXPECT_TRUE(differs(Known("qwen3-8b"), [](auto& s) { s.qk_norm = false; }));
  EXPECT_TRUE(differs(Known("llama3-8b"), [](auto& s) { s.output_bias = true; }));
  EXPECT_TRUE(differs(Known("llama3-8b"), [](auto& s) { s.mlp_bias = true; }));
  EXPECT_TRUE(differs(Known("llama3-8b"), [](auto& s) { s.kv_heads = 32; }));
  EXPECT_TRUE(differs(Known("mixtral-8x7b"), [](auto& s) { s.experts.reset(); }));
  EXPECT_TRUE(differs(Known("deepseek-v3"), [](auto& s) { s.experts->selection_bias = false; }));
  EXPECT_TRUE(differs(Known("deepseek-v3"), [](auto& s) { s.experts->dense_layers = 0; }));
  EXPECT_TRUE(differs(Known("deepseek-v3"), [](auto& s) { s.latent->q_lora_rank = 0; }));
  EXPECT_FALSE(differs(Known("llama3-8b"), [](auto& s) { s.rope_theta = 1; }));
}

TEST(WeightParameters, DontWrap) {
  ModelShape shape = Known("mixtral-8x7b");
  shape.layers = 1u << 12;
  shape.hidden = shape.intermediate = shape.experts->intermediate = 1u << 24;
  shape.experts->count = 1u << 16;
  EXPECT_OK(ValidateModelShape(shape));
  EXPECT_EQ(WeightParameters(shape), std::nullopt);
}

TEST(RankKvBytes, AreTheKnownOnes) {
  EXPECT_EQ(KvBytes(Known("llama3-8b"), 131072), 17179869184u);
  EXPECT_EQ(KvBytes(Known("llama3-70b"), 1), 327680u);
  EXPECT_EQ(KvBytes(Known("llama3-70b"), 112000), 36700160000u);
  EXPECT_EQ(KvBytes(Known("smollm2-135m"), 1), 23040u);
  EXPECT_EQ(KvBytes(Known("llama2-7b"), 1), 524288u);
  EXPECT_EQ(KvBytes(Known("qwen2.5-7b"), 1), 57344u);
}

TEST(RankKvBytes, FollowTheDtype) {
  EXPECT_EQ(KvBytes(Known("llama3-70b"), 1, DType::kFp8), 163840u);
  EXPECT_EQ(KvBytes(Known("llama3-70b"), 1, DType::kInt8), 163840u);
  EXPECT_EQ(KvBytes(Known("llama3-70b"), 1, DType::kFp32), 655360u);
}

TEST(RankKvBytes, StopGrowingWhereAWindowIsFull) {
  const ModelShape windowed = Known("mistral-7b-v0.1");
  const ModelShape full = Known("mistral-7b-v0.3");
  EXPECT_EQ(KvBytes(windowed, 4096), KvBytes(full, 4096));
  EXPECT_EQ(KvBytes(windowed, 4097), 536870912u);
  EXPECT_EQ(KvBytes(windowed, 131072), 536870912u);
  EXPECT_EQ(KvBytes(full, 131072), 17179869184u);
  // Where some layers only have one, the others go on growing.
  ModelShape half = windowed;
  half.window->layers = 16;
  EXPECT_EQ(KvBytes(half, 131072), (536870912u + 17179869184u) / 2);
}

TEST(RankKvBytes, OfLatentAttentionAreOneRowALayer) {
  EXPECT_EQ(KvBytes(Known("deepseek-v3"), 1), 61u * (512 + 64) * 2);  // 70,272
  EXPECT_EQ(KvBytes(Known("deepseek-v2-lite"), 1), 27u * (512 + 64) * 2);
}

TEST(RankKvBytes, DontWrap) {
  const ModelShape shape = Known("llama3-8b");
  EXPECT_EQ(RankKvBytes(shape, *SplitKv(shape, 1), DType::kBf16, uint64_t{1} << 47), std::nullopt);
  EXPECT_NE(RankKvBytes(shape, *SplitKv(shape, 1), DType::kBf16, uint64_t{1} << 46), std::nullopt);
}

TEST(SplitKv, GivesEachRankItsHeads) {
  const ModelShape shape = Known("llama3-70b");
  EXPECT_EQ(*SplitKv(shape, 1), (KvSplit{1, 8, 1}));
  EXPECT_EQ(*SplitKv(shape, 4), (KvSplit{4, 2, 1}));
  EXPECT_EQ(RankKvBytesPerToken(shape, *SplitKv(shape, 4), DType::kBf16), 81920u);
}

TEST(SplitKv, HoldsAHeadSeveralTimesWhereThereAreMoreRanks) {
  const ModelShape shape = Known("llama3-70b");
  EXPECT_EQ(*SplitKv(shape, 16), (KvSplit{16, 1, 2}));
  // Latent rows are on every rank.
  const ModelShape latent = Known("deepseek-v3");
  EXPECT_EQ(*SplitKv(latent, 8), (KvSplit{8, 1, 8}));
  EXPECT_EQ(RankKvBytesPerToken(latent, *SplitKv(latent, 8), DType::kBf16), 70272u);
}

TEST(SplitKv, RefusesRanksThatDontDivide) {
  const auto refused = [](const std::string& name, uint32_t ranks, const char* says) {
    return FailsWith(SplitKv(Known(name), ranks).status(), StatusCode::kInvalidArgument, says);
  };
  EXPECT_TRUE(refused("llama3-70b", 0, "64 query heads"));
  EXPECT_TRUE(refused("llama3-70b", 3, "64 query heads"));
  EXPECT_TRUE(refused("llama3-70b", 128, "64 query heads"));
  EXPECT_TRUE(refused("qwen2.5-14b", 5, "8 KV heads"));  // of 40
  EXPECT_TRUE(refused("deepseek-v3", 3, "128 query heads"));
}

TEST(AttentionKind, FollowsTheHeads) {
  EXPECT_EQ(AttentionKindOf(Known("llama2-7b")), AttentionKind::kMha);
  EXPECT_EQ(AttentionKindOf(Known("llama3-8b")), AttentionKind::kGqa);
  EXPECT_EQ(AttentionKindOf(Known("deepseek-v3")), AttentionKind::kMla);
  ModelShape one = Known("llama3-8b");
  one.kv_heads = 1;
  EXPECT_EQ(AttentionKindName(AttentionKindOf(one)), "MQA");
}

TEST(ValidateModelShape, RefusesAbsurdCounts) {
  const auto refused = [](auto change, const char* says) {
    ModelShape shape = Known("deepseek-v3");
    shape.window = SlidingWindow{.tokens = 4096, .layers = 1};
    EXPECT_OK(ValidateModelShape(shape));
    change(shape);
    return FailsWith(ValidateModelShape(shape), StatusCode::kInvalidArgument, says);
  };
  EXPECT_TRUE(refused([](auto& s) { s.layers = 0; }, "num_hidden_layers"));
  EXPECT_TRUE(refused([](auto& s) { s.layers = UINT32_MAX; }, "num_hidden_layers"));
  EXPECT_TRUE(refused([](auto& s) { s.hidden = 0; }, "hidden_size"));
  EXPECT_TRUE(refused([](auto& s) { s.vocab = UINT32_MAX; }, "vocab_size"));
  EXPECT_TRUE(refused([](auto& s) { s.heads = 0; }, "num_attention_heads"));
  EXPECT_TRUE(refused([](auto& s) { s.window->layers = 62; }, "sliding window"));
  EXPECT_TRUE(refused([](auto& s) { s.window->tokens = 0; }, "sliding_window"));
  EXPECT_TRUE(refused([](auto& s) { s.latent->kv_lora_rank = 0; }, "kv_lora_rank"));
  EXPECT_TRUE(refused([](auto& s) { s.experts->count = 0; }, "experts"));
  EXPECT_TRUE(refused([](auto& s) { s.experts->dense_layers = 62; }, "first_k_dense_replace"));
  ModelShape odd = Known("llama3-8b");
  odd.kv_heads = 5;
  EXPECT_TRUE(FailsWith(ValidateModelShape(odd), StatusCode::kInvalidArgument, "no multiple"));
}

}  // namespace
}  // namespace kvbed
