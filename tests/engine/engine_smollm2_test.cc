// The forward pass on SmolLM2-135M-Instruct against values that transformers and numpy computed
// from the same 4-bit file.
#include <gtest/gtest.h>

#include "tests/engine/engine_harness.h"
#include "tests/engine/golden.h"
#include "tests/support/require.h"

namespace kvbed {
namespace {

constexpr double kSmolLogitsTolerance = 5e-4;
constexpr double kSmolKvTolerance = 2e-4;
constexpr double kKvSumTolerance = 1e-6;  // of the sum of absolute values
// bf16 tokens may part where the two best logits are this near.
constexpr double kBf16Gap = 0.5;

std::vector<TokenId> IdsOf(const nlohmann::json& ids) { return ids.get<std::vector<TokenId>>(); }

void CheckKv(const nlohmann::json& expected, Sequence& sequence) {
  const KvLayer layer = KvOf(sequence, expected["layer"].get<uint32_t>());
  const std::vector<float>& values = expected["what"] == "K" ? layer.k : layer.v;
  const size_t tokens = expected["shape"][1], head_dim = expected["shape"][2];
  ASSERT_EQ(values.size(), expected["shape"][0].get<size_t>() * tokens * head_dim);
  double sum = 0, abs_sum = 0, abs_max = 0;
  for (float value : values) {
    sum += value;
    abs_sum += std::abs(value);
    abs_max = std::max(abs_max, std::abs(double{value}));
  }
  const double expected_abs_sum = expected["abs_sum"];
  EXPECT_NEAR(sum, expected["sum"].get<double>(), kKvSumTolerance * expected_abs_sum);
  EXPECT_NEAR(abs_sum, expected_abs_sum, kKvSumTolerance * expected_abs_sum);
  EXPECT_NEAR(abs_max, expected["abs_max"].get<double>(), kSmolKvTolerance);
  for (size_t i = 0; i < expected["values"].size(); ++i) {
    const auto& at = expected["index_head_token_dim"][i];
    const size_t index =
        (at[0].get<size_t>() * tokens + at[1].get<size_t>()) * head_dim + at[2].get<size_t>();
    EXPECT_NEAR(values[index], expected["values"][i].get<double>(), kSmolKvTolerance);
  }
}

class SmolLM2 : public OnEachKernelSet {
 protected:
  void SetUp() override {
    if (std::string_view(KVBED_SMOLLM2_GGUF).empty()) {
      KVBED_SKIP_OR_FAIL("SmolLM2 is not installed; tools/setup fetches it");
    }
  }
  const ModelFiles& Model() {
    static const ModelFiles model = OpenTestModel(KVBED_SMOLLM2_GGUF);
    return model;
  }
  const nlohmann::json golden_ = GoldenJson("smollm2_q4_1.expected.json");
};
INSTANTIATE_TEST_SUITE_P(Kernels, SmolLM2, ::testing::ValuesIn(KernelSets()),
                         [](const auto& set) { return set.param; });

TEST_P(SmolLM2, GivesTheExpectedKvLogitsAndTokensInFp32) {
  Engine engine = Open(Model(), {.dtype = DType::kFp32});
  for (const auto& prompt : golden_["prompts"]) {
    SCOPED_TRACE(prompt["name"].get<std::string>());
    const std::vector<TokenId> ids = IdsOf(prompt["prompt_ids"]);
    const nlohmann::json& expected = prompt["fp32"];
    const std::vector<TokenId> generated = IdsOf(expected["generated_ids"]);
    Session session(engine, 16, ids.size() + generated.size());
    session.Prefill(ids);
    for (const auto& kv : expected["kv"]) CheckKv(kv, session.sequence());
    for (size_t i = 0; i < generated.size(); ++i) {
      SCOPED_TRACE(i);
      for (size_t rank = 0; rank < expected["top5_ids"][i].size(); ++rank) {
        EXPECT_NEAR(session.logits()[expected["top5_ids"][i][rank].get<size_t>()],
                    expected["top5_logits"][i][rank].get<double>(), kSmolLogitsTolerance);
      }
      ASSERT_EQ(Greedy(session.logits()), generated[i]);
      if (i + 1 < generated.size()) session.Decode(generated[i]);
    }
  }
}

TEST_P(SmolLM2, GivesTheExpectedTokensInBf16UpToANearTie) {
  Engine engine = Open(Model(), {.dtype = DType::kBf16});
  for (const auto& prompt : golden_["prompts"]) {
    SCOPED_TRACE(prompt["name"].get<std::string>());
    const std::vector<TokenId> ids = IdsOf(prompt["prompt_ids"]);
    const nlohmann::json& expected = prompt["bf16"];
    const std::vector<TokenId> generated = IdsOf(expected["generated_ids"]);
    Session session(engine, 16, ids.size() + generated.size());
    session.Prefill(ids);
    for (size_t i = 0; i < generated.size(); ++i) {
      SCOPED_TRACE(i);
      const TokenId token = Greedy(session.logits());
      const bool near_tie = expected["top2_gap"][i].get<double>() <= kBf16Gap ||
                            expected["fp32_logits_top2_gap"][i].get<double>() <= kBf16Gap;
      if (near_tie) {
        const std::vector<TokenId> top2 = IdsOf(expected["top2_ids"][i]);
        const std::vector<TokenId> fp32_top2 = IdsOf(expected["fp32_logits_top2_ids"][i]);
        EXPECT_TRUE(token == top2[0] || token == top2[1] || token == fp32_top2[0] ||
                    token == fp32_top2[1])
            << token;
        if (token != generated[i]) break;
      }
      ASSERT_EQ(token, generated[i]);
      if (i + 1 < generated.size()) session.Decode(token);
    }
  }
}

// The comparison above would notice: the smallest mistakes move these values beyond its tolerances.
TEST_P(SmolLM2, NoticesAnotherEpsilonAndAnotherTheta) {
  const auto& prompt = golden_["prompts"][0];
  const std::vector<TokenId> ids = IdsOf(prompt["prompt_ids"]);
  const size_t best = prompt["fp32"]["top5_ids"][0][0];
  const double expected = prompt["fp32"]["top5_logits"][0][0];
  const auto difference = [&](void (*mistake)(ModelConfig&)) {
    ModelFiles model = OpenTestModel(KVBED_SMOLLM2_GGUF);
    mistake(model.config);
    Engine engine = Open(model, {.dtype = DType::kFp32});
    Session session(engine, 16, ids.size());
    return std::abs(session.Prefill(ids).logits()[best] - expected);
  };
  EXPECT_LE(difference([](ModelConfig&) {}), kSmolLogitsTolerance);
  EXPECT_GT(difference([](ModelConfig& config) { config.rms_norm_eps = 1e-6f; }),
            kSmolLogitsTolerance);
  EXPECT_GT(difference([](ModelConfig& config) { config.rope_theta = 10000; }),
            kSmolLogitsTolerance);
}

}  // namespace
}  // namespace kvbed
