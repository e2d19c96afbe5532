// Shapes read from config.json files, with what makes sizes differ and what is refused.
#include "engine/model/shape_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/model/known_shapes.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

using Json = nlohmann::json;

Json LlamaConfig() {
  return {{"model_type", "llama"},    {"hidden_size", 4096},
          {"num_hidden_layers", 32},  {"num_attention_heads", 32},
          {"num_key_value_heads", 8}, {"intermediate_size", 14336},
          {"vocab_size", 128256},     {"max_position_embeddings", 8192},
          {"rope_theta", 500000.0},   {"tie_word_embeddings", false}};
}

Json Changed(Json config, const Json& changes) {
  config.update(changes);
  return config;
}

Json Mistral(const Json& changes = Json::object()) {
  return Changed(LlamaConfig(),
                 Changed({{"model_type", "mistral"}, {"vocab_size", 32000}}, changes));
}

Json Qwen3(const Json& changes = Json::object()) {
  return Changed(LlamaConfig(), Changed({{"model_type", "qwen3"}, {"head_dim", 128}}, changes));
}

Json DeepSeek(const Json& changes = Json::object()) {
  const Json latent = {{"model_type", "deepseek_v3"},
                       {"hidden_size", 7168},
                       {"num_hidden_layers", 61},
                       {"num_attention_heads", 128},
                       {"num_key_value_heads", 128},
                       {"intermediate_size", 18432},
                       {"vocab_size", 129280},
                       {"max_position_embeddings", 163840},
                       {"rope_theta", 10000},
                       {"q_lora_rank", 1536},
                       {"kv_lora_rank", 512},
                       {"qk_nope_head_dim", 128},
                       {"qk_rope_head_dim", 64},
                       {"v_head_dim", 128},
                       {"n_routed_experts", 256},
                       {"moe_intermediate_size", 2048},
                       {"n_shared_experts", 1},
                       {"first_k_dense_replace", 3},
                       {"moe_layer_freq", 1},
                       {"num_nextn_predict_layers", 1},
                       {"quantization_config", {{"quant_method", "fp8"}}}};
  return Changed(LlamaConfig(), Changed(latent, changes));
}

// Without what a file can't say.
ModelShape KnownWithoutNames(const std::string& name) {
  for (ModelShape shape : KnownShapes()) {
    if (shape.name != name) continue;
    shape.name = shape.source = "";
    return shape;
  }
  ADD_FAILURE() << "no shape " << name;
  return {};
}

ModelShape Shape(const Json& config) {
  auto shape = ParseShapeConfig(config.dump());
  EXPECT_OK(shape);
  return shape.ok() ? *shape : ModelShape{};
}

testing::AssertionResult Refused(const Json& config, const char* says) {
  return FailsWith(ParseShapeConfig(config.dump()).status(), StatusCode::kNotSupported, says);
}
testing::AssertionResult Damaged(const Json& config, const char* says) {
  return FailsWith(ParseShapeConfig(config.dump()).status(), StatusCode::kCorruption, says);
}

TEST(ShapeConfig, EqualsTheKnownShapeOfTheSameModel) {
  EXPECT_EQ(Shape(LlamaConfig()), KnownWithoutNames("llama3-8b"));
  EXPECT_EQ(Shape(DeepSeek()), KnownWithoutNames("deepseek-v3"));
  EXPECT_EQ(
      Shape(Mistral(
          {{"rope_theta", 10000.0}, {"max_position_embeddings", 32768}, {"sliding_window", 4096}})),
      KnownWithoutNames("mistral-7b-v0.1"));
  EXPECT_EQ(Shape(Qwen3({{"num_hidden_layers", 36},
                         {"intermediate_size", 12288},
                         {"vocab_size", 151936},
                         {"max_position_embeddings", 40960},
                         {"rope_theta", 1000000},
                         {"use_sliding_window", false},
                         {"sliding_window", nullptr},
                         {"max_window_layers", 36}})),
            KnownWithoutNames("qwen3-8b"));
  EXPECT_EQ(Shape(Mistral({{"model_type", "mixtral"},
                           {"num_local_experts", 8},
                           {"rope_theta", 1000000},
                           {"max_position_embeddings", 32768},
                           {"sliding_window", nullptr}})),
            KnownWithoutNames("mixtral-8x7b"));
}

TEST(ShapeConfig, DerivesTheHeadDimWhereTransformersDoes) {
  EXPECT_EQ(Shape(LlamaConfig()).head_dim, 128u);
  EXPECT_EQ(Shape(Changed(LlamaConfig(), {{"head_dim", 64}})).head_dim, 64u);
  EXPECT_TRUE(Damaged(Changed(LlamaConfig(), {{"hidden_size", 4097}}), "no multiple"));
  EXPECT_TRUE(Damaged(Changed(LlamaConfig(), {{"head_dim", 0}}), "head_dim"));
  // Qwen3's default is 128 whatever the hidden size: not a guess.
  EXPECT_TRUE(Damaged(Qwen3({{"head_dim", nullptr}}), "head_dim is missing"));
}

TEST(ShapeConfig, HasAsManyKvHeadsAsQueryHeadsWhereTheFileSaysNothing) {
  Json config = LlamaConfig();
  config.erase("num_key_value_heads");
  EXPECT_EQ(Shape(config).kv_heads, 32u);
  config["model_type"] = "mistral";  // whose default is another number
  EXPECT_TRUE(Damaged(config, "num_key_value_heads"));
}

TEST(ShapeConfig, TakesAMistralsWindow) {
  const SlidingWindow all{.tokens = 4096, .layers = 32};
  EXPECT_EQ(Shape(Mistral({{"sliding_window", 4096}})).window, all);
  EXPECT_EQ(Shape(Mistral({{"sliding_window", nullptr}})).window, std::nullopt);
  // Absent is transformers' default, which is not none.
  EXPECT_EQ(Shape(Mistral()).window, all);
  EXPECT_TRUE(Damaged(Mistral({{"sliding_window", 0}}), "sliding_window"));
  EXPECT_TRUE(Damaged(Mistral({{"sliding_window", -1}}), "sliding_window"));
}

TEST(ShapeConfig, TakesAQwensWindowOnlyWhereItIsUsed) {
  const Json window = {{"sliding_window", 1024}, {"max_window_layers", 24}};
  EXPECT_EQ(Shape(Qwen3(window)).window, std::nullopt);
  EXPECT_EQ(Shape(Qwen3(Changed(window, {{"use_sliding_window", false}}))).window, std::nullopt);
  const SlidingWindow last_eight{.tokens = 1024, .layers = 8};
  EXPECT_EQ(Shape(Qwen3(Changed(window, {{"use_sliding_window", true}}))).window, last_eight);
  EXPECT_TRUE(Damaged(Qwen3({{"sliding_window", 1024}, {"use_sliding_window", true}}),
                      "max_window_layers"));
}

TEST(ShapeConfig, TakesLayerTypes) {
  Json types = Json::array();
  for (int i = 0; i < 32; ++i) types.push_back(i % 4 == 3 ? "full_attention" : "sliding_attention");
  const Json window = {{"sliding_window", 512}, {"layer_types", types}};
  EXPECT_EQ(Shape(Mistral(window)).window, (SlidingWindow{.tokens = 512, .layers = 24}));
  types[0] = "linear_attention";
  EXPECT_TRUE(
      Refused(Mistral({{"sliding_window", 512}, {"layer_types", types}}), "linear_attention"));
  types[0] = "sliding_attention";
  EXPECT_TRUE(
      Damaged(Mistral({{"sliding_window", nullptr}, {"layer_types", types}}), "no sliding_window"));
  types.erase(0);
  EXPECT_TRUE(Damaged(Mistral({{"sliding_window", 512}, {"layer_types", types}}), "layer_types"));
}

TEST(ShapeConfig, CountsBiases) {
  EXPECT_TRUE(Shape(Changed(LlamaConfig(), {{"attention_bias", true}})).output_bias);
  EXPECT_TRUE(Shape(Changed(LlamaConfig(), {{"mlp_bias", true}})).mlp_bias);
  const ModelShape qwen = Shape(Changed(LlamaConfig(), {{"model_type", "qwen2"}}));
  EXPECT_TRUE(qwen.qkv_bias && !qwen.output_bias);
}

TEST(ShapeConfig, ReadsTheThetaOfTransformers5) {
  Json config = LlamaConfig();
  config.erase("rope_theta");
  EXPECT_EQ(Shape(config).rope_theta, 10000);
  config["rope_parameters"] = {{"rope_theta", 500000.0}, {"rope_type", "default"}};
  EXPECT_EQ(Shape(config), KnownWithoutNames("llama3-8b"));
}

TEST(ShapeConfig, RefusesByNameWhatItWouldSizeWrong) {
  for (const char* type : {"gemma2", "gemma3_text", "gpt_oss", "mamba2", "falcon", "llama4"}) {
    EXPECT_TRUE(Refused(Changed(LlamaConfig(), {{"model_type", type}}), type));
  }
  EXPECT_TRUE(
      Refused(Changed(LlamaConfig(), {{"sliding_window", 4096}}), "sliding_window is 4096"));
  EXPECT_TRUE(Refused(Changed(LlamaConfig(), {{"kv_lora_rank", 512}}), "kv_lora_rank"));
  EXPECT_TRUE(Refused(Changed(LlamaConfig(), {{"num_local_experts", 8}}), "num_local_experts"));
  EXPECT_TRUE(Refused(DeepSeek({{"moe_layer_freq", 2}}), "moe_layer_freq"));
  EXPECT_TRUE(Refused(DeepSeek({{"index_head_dim", 128}}), "index_head_dim"));
  EXPECT_TRUE(Refused(DeepSeek({{"attention_bias", true}}), "attention_bias"));
  const Json moe =
      Qwen3({{"model_type", "qwen3_moe"}, {"num_experts", 128}, {"moe_intermediate_size", 768}});
  EXPECT_EQ(Shape(moe).experts->count, 128u);
  EXPECT_TRUE(Refused(Changed(moe, {{"decoder_sparse_step", 2}}), "decoder_sparse_step"));
  EXPECT_TRUE(Refused(Changed(moe, {{"mlp_only_layers", Json::array({0})}}), "mlp_only_layers"));
}

TEST(ShapeConfig, RefusesWhatIsNoConfig) {
  for (const char* text : {"", "[]", "7", "{", "null", "{\"model_type\": 7}", "{}"}) {
    EXPECT_TRUE(FailsWith(ParseShapeConfig(text).status(), StatusCode::kCorruption)) << text;
  }
  for (const char* field : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                            "intermediate_size", "vocab_size"}) {
    Json config = LlamaConfig();
    config.erase(field);
    EXPECT_TRUE(Damaged(config, field));
    for (const Json& bad : Json({-1, 0, 1.5, "8", 4294967295, 1e300, Json::array({1})})) {
      EXPECT_TRUE(Damaged(Changed(LlamaConfig(), {{field, bad}}), "")) << field << " " << bad;
    }
  }
  EXPECT_TRUE(Damaged(Changed(LlamaConfig(), {{"num_key_value_heads", 0}}), "num_key_value_heads"));
  EXPECT_TRUE(Damaged(Changed(LlamaConfig(), {{"num_key_value_heads", 5}}), "no multiple"));
}

}  // namespace
}  // namespace kvbed
