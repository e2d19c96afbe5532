// config.json as transformers 4 and 5 write it, and what is refused by name.
#include "engine/model/hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

using Json = nlohmann::json;

Json SomeHfConfig() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 128},
          {"intermediate_size", 24},
          {"num_attention_heads", 8},
          {"num_hidden_layers", 3},
          {"num_key_value_heads", 2},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"vocab_size", 320}};
}

Json With(const Json& changes) {
  Json config = SomeHfConfig();
  config.update(changes);
  return config;
}

const Json kLlama3Scaling = {{"factor", 32.0},
                             {"low_freq_factor", 1.0},
                             {"high_freq_factor", 4.0},
                             {"original_max_position_embeddings", 8192}};

TEST(HfConfig, ReadsTheNumbers) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       ParseHfConfig(With({{"tie_word_embeddings", true},
                                           {"max_position_embeddings", 512},
                                           {"bos_token_id", 1},
                                           {"eos_token_id", {2, 7}}})
                                         .dump()));
  EXPECT_EQ(config.hidden, 128u);
  EXPECT_EQ(config.layers, 3u);
  EXPECT_EQ(config.heads, 8u);
  EXPECT_EQ(config.kv_heads, 2u);
  EXPECT_EQ(config.head_dim, 16u);
  EXPECT_EQ(config.intermediate, 24u);
  EXPECT_EQ(config.rms_norm_eps, 1e-5f);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.max_position, 512u);
  EXPECT_EQ(config.bos_ids, (std::vector<TokenId>{1}));
  EXPECT_EQ(config.eos_ids, (std::vector<TokenId>{2, 7}));
}

TEST(HfConfig, TakesHeadDimAndKvHeadsWhenGivenAndElseTheirDefaults) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig given, ParseHfConfig(With({{"head_dim", 32}}).dump()));
  EXPECT_EQ(given.head_dim, 32u);
  Json config = SomeHfConfig();
  config.erase("num_key_value_heads");
  ASSERT_OK_AND_ASSIGN(const ModelConfig mha, ParseHfConfig(config.dump()));
  EXPECT_EQ(mha.kv_heads, 8u);
}

TEST(HfConfig, TransformersFourAndFiveSayTheSame) {
  Json older_scaling = kLlama3Scaling, newer = kLlama3Scaling, oldest = kLlama3Scaling;
  older_scaling["rope_type"] = newer["rope_type"] = oldest["type"] = "llama3";
  newer["rope_theta"] = 500000.0;
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig four,
      ParseHfConfig(With({{"rope_theta", 500000.0}, {"rope_scaling", older_scaling}}).dump()));
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig five,
      ParseHfConfig(With({{"rope_parameters", newer}, {"dtype", "bfloat16"}}).dump()));
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig first,
      ParseHfConfig(With({{"rope_theta", 500000.0}, {"rope_scaling", oldest}}).dump()));
  EXPECT_EQ(four, five);
  EXPECT_EQ(four, first);
  EXPECT_EQ(four.rope_scaling.kind, RopeKind::kLlama3);
  EXPECT_EQ(four.rope_scaling.factor, 32);
  ASSERT_OK_AND_ASSIGN(const ModelConfig plain,
                       ParseHfConfig(With({{"rope_theta", 500000.0}}).dump()));
  EXPECT_NE(four, plain);
}

TEST(HfConfig, RefusesByNameWhatItCantRun) {
  const auto refused = [](const Json& changes, std::string_view word) {
    return FailsWith(StatusOf(ParseHfConfig(With(changes).dump())), StatusCode::kNotSupported,
                     word);
  };
  EXPECT_TRUE(refused({{"model_type", "mistral"}}, "mistral"));
  EXPECT_TRUE(refused({{"architectures", {"ZebraForCausalLM"}}}, "ZebraForCausalLM"));
  EXPECT_TRUE(refused({{"attention_bias", true}}, "attention_bias"));
  EXPECT_TRUE(refused({{"mlp_bias", true}}, "mlp_bias"));
  EXPECT_TRUE(refused({{"hidden_act", "gelu"}}, "gelu"));
  EXPECT_TRUE(refused({{"sliding_window", 4096}}, "sliding_window is 4096"));
  EXPECT_TRUE(
      refused({{"layer_types", {"full_attention", "sliding_attention"}}}, "sliding_attention"));
  EXPECT_TRUE(refused({{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"));
  EXPECT_TRUE(refused({{"quantization_config", {{"quant_method", "awq"}}}}, "awq"));
  EXPECT_TRUE(refused({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}}}}, "yarn"));
  EXPECT_TRUE(refused({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}, "linear"));
  EXPECT_TRUE(refused({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}},
                      "by layer type"));
}

TEST(HfConfig, AcceptsWhatIsNotInEffect) {
  EXPECT_OK(ParseHfConfig(With({{"sliding_window", nullptr}}).dump()));
  EXPECT_OK(ParseHfConfig(With({{"sliding_window", 4096}, {"use_sliding_window", false}}).dump()));
  EXPECT_OK(ParseHfConfig(With({{"attention_bias", false}, {"rope_scaling", nullptr}}).dump()));
  EXPECT_OK(ParseHfConfig(With({{"layer_types", {"full_attention"}}}).dump()));
  EXPECT_OK(ParseHfConfig(With({{"unknown_field", {{"nested", {1, 2}}}}}).dump()));
}

TEST(HfConfig, NamesTheFieldAtFault) {
  for (const char* field : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                            "intermediate_size", "vocab_size", "rms_norm_eps", "model_type"}) {
    Json config = SomeHfConfig();
    config.erase(field);
    EXPECT_TRUE(FailsWith(StatusOf(ParseHfConfig(config.dump())), StatusCode::kCorruption, field));
  }
  const auto invalid = [](const Json& changes, std::string_view word) {
    return FailsWith(StatusOf(ParseHfConfig(With(changes).dump())), StatusCode::kCorruption, word);
  };
  EXPECT_TRUE(invalid({{"hidden_size", "128"}}, "hidden_size is \"128\""));
  EXPECT_TRUE(invalid({{"hidden_size", -128}}, "hidden_size"));
  EXPECT_TRUE(invalid({{"hidden_size", 1e300}}, "hidden_size"));
  EXPECT_TRUE(invalid({{"num_hidden_layers", 4000000000u}}, "num_hidden_layers"));
  EXPECT_TRUE(invalid({{"num_attention_heads", 0}}, "num_attention_heads"));
  EXPECT_TRUE(invalid({{"num_attention_heads", 7}}, "no multiple of"));
  EXPECT_TRUE(invalid({{"num_key_value_heads", 3}}, "no multiple of 3"));
  EXPECT_TRUE(invalid({{"eos_token_id", "</s>"}}, "eos_token_id"));
  EXPECT_TRUE(
      invalid({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}}}, "low_freq_factor"));
  EXPECT_TRUE(invalid({{"rope_scaling", {{"factor", 8.0}}}}, "rope_type"));
  EXPECT_TRUE(invalid({{"rope_scaling", 8}}, "rope_scaling"));
  EXPECT_TRUE(
      invalid({{"rope_theta", 1.0}, {"rope_parameters", {{"rope_theta", 2.0}}}}, "contradict"));
}

TEST(HfConfig, RefusesTextThatIsNoJsonObject) {
  for (const char* text : {"", "{", "[]", "null", "{\"a\":1,}", "{\"a\":1}x", "\xff"}) {
    const Status status = StatusOf(ParseHfConfig(text));
    EXPECT_FALSE(status.ok()) << text;
  }
  const std::string twice = R"({"model_type":"llama","model_type":"llama"})";
  EXPECT_TRUE(FailsWith(StatusOf(ParseHfConfig(twice)), StatusCode::kCorruption, "model_type"));
  const std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_TRUE(FailsWith(StatusOf(ParseHfConfig(deep)), StatusCode::kCorruption, "nested"));
}

TEST(GenerationConfig, GivesEosIds) {
  ASSERT_OK_AND_ASSIGN(const auto ids, ParseGenerationEosIds(R"({"eos_token_id":[1,2,3]})"));
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 2, 3}));
  ASSERT_OK_AND_ASSIGN(const auto none, ParseGenerationEosIds("{}"));
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace kvbed
