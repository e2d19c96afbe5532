// Rotary frequencies against torch's, and which numbers a config may have.
#include "engine/model/model_config.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "engine/model/model_files.h"
#include "tests/engine/golden_model.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

ModelConfig SomeConfig() {
  ModelConfig config;
  config.architecture = "llama";
  config.hidden = 576;
  config.layers = 30;
  config.heads = 9;
  config.kv_heads = 3;
  config.head_dim = 64;
  config.intermediate = 1536;
  config.vocab = 49152;
  config.rms_norm_eps = 1e-5f;
  return config;
}

// Steps of fp32 between two positive numbers.
int64_t StepsBetween(float a, float b) {
  return std::abs(int64_t{std::bit_cast<int32_t>(a)} - int64_t{std::bit_cast<int32_t>(b)});
}

TEST(RopeFrequencies, EqualTorchsToOneRounding) {
  // torch's vectorised pow may be off by one step where std::pow in double isn't.
  const auto golden = ReadGoldenModelJson("rope_frequencies.json");
  uint64_t equal = 0, all = 0;
  for (const auto& table : golden["tables"]) {
    ModelConfig config = SomeConfig();
    config.rope_theta = table["rope_theta"];
    config.head_dim = table["head_dim"];
    if (const auto& scaling = table["llama3"]; !scaling.is_null())
      config.rope_scaling = {.kind = RopeKind::kLlama3,
                             .factor = scaling["factor"],
                             .low_freq_factor = scaling["low_freq_factor"],
                             .high_freq_factor = scaling["high_freq_factor"],
                             .original_max_position = scaling["original_max_position"]};
    const std::vector<float> ours = RopeInverseFrequencies(config);
    ASSERT_EQ(ours.size(), table["frequency_bits"].size());
    for (size_t i = 0; i < ours.size(); ++i) {
      const auto torchs = std::bit_cast<float>(table["frequency_bits"][i].get<uint32_t>());
      EXPECT_LE(StepsBetween(ours[i], torchs), 1) << table["rope_theta"] << " dim " << i;
      equal += ours[i] == torchs;
      ++all;
    }
  }
  EXPECT_GE(equal * 100, all * 97) << equal << " of " << all;
}

TEST(RopeFrequencies, Llama3ScalingChangesOnlyLongWavelengths) {
  ModelConfig plain = SomeConfig(), scaled = SomeConfig();
  plain.rope_theta = scaled.rope_theta = 500000;
  scaled.rope_scaling = {.kind = RopeKind::kLlama3,
                         .factor = 8,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4,
                         .original_max_position = 8192};
  const auto before = RopeInverseFrequencies(plain), after = RopeInverseFrequencies(scaled);
  EXPECT_EQ(before.front(), after.front());
  EXPECT_EQ(before.back() / 8, after.back());
  bool between = false;
  for (size_t i = 0; i < before.size(); ++i)
    between |= after[i] < before[i] && after[i] > before[i] / 8;
  EXPECT_TRUE(between) << "some frequency must lie in the smooth part";
}

TEST(RopeFrequencies, AGgufFilesDivisorsGiveLlama3sScaling) {
  ASSERT_OK_AND_ASSIGN(const ModelFiles gguf,
                       OpenModel(GoldenModelPath("mha_llama3_rope.f32.gguf")));
  ASSERT_OK_AND_ASSIGN(const ModelFiles hf, OpenModel(GoldenModelPath("mha_llama3_rope")));
  ASSERT_EQ(gguf.config.rope_freq_divisors.size(), gguf.config.head_dim / 2);
  const auto from_gguf = RopeInverseFrequencies(gguf.config);
  const auto from_hf = RopeInverseFrequencies(hf.config);
  for (size_t i = 0; i < from_hf.size(); ++i) EXPECT_NEAR(from_gguf[i] / from_hf[i], 1, 1e-6) << i;
  ModelConfig without = gguf.config;
  without.rope_freq_divisors.clear();
  EXPECT_NE(RopeInverseFrequencies(without), from_gguf);
}

TEST(KvBytesPerToken, IsThatOfTheFormula) {
  EXPECT_EQ(KvBytesPerToken(SomeConfig(), 2), 23040u);
  EXPECT_EQ(KvBytesPerToken(SomeConfig(), 4), 46080u);
}

TEST(ValidateModelConfig, NamesWhatIsWrong) {
  EXPECT_OK(ValidateModelConfig(SomeConfig()));
  const auto fails = [](auto change, std::string_view word) {
    ModelConfig config = SomeConfig();
    change(config);
    return FailsWith(ValidateModelConfig(config), StatusCode::kInvalidArgument, word);
  };
  EXPECT_TRUE(fails([](auto& c) { c.hidden = 0; }, "hidden_size"));
  EXPECT_TRUE(fails([](auto& c) { c.layers = 0; }, "num_hidden_layers"));
  EXPECT_TRUE(fails([](auto& c) { c.vocab = 1u << 30; }, "vocab_size"));
  EXPECT_TRUE(fails([](auto& c) { c.kv_heads = 2; }, "9 attention heads are no multiple of 2"));
  EXPECT_TRUE(fails([](auto& c) { c.head_dim = 63; }, "head_dim"));
  EXPECT_TRUE(fails([](auto& c) { c.rms_norm_eps = NAN; }, "rms_norm_eps"));
  EXPECT_TRUE(fails([](auto& c) { c.rope_theta = 0; }, "rope_theta"));
  EXPECT_TRUE(fails([](auto& c) { c.rope_freq_divisors = {1, 2}; }, "rope_freqs"));
  EXPECT_TRUE(fails([](auto& c) { c.rope_freq_divisors.assign(32, 0); }, "rope_freqs"));
  EXPECT_TRUE(fails([](auto& c) { c.rope_scaling = {.kind = RopeKind::kLlama3}; }, "llama3"));
}

}  // namespace
}  // namespace kvbed
