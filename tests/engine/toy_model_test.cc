// Toys: their shapes, their keys, and numbers that are the same on every platform.
#include "engine/model/toy_model.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "engine/model/model_files.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

TEST(ToyModel, HasTheShapeOfItsName) {
  ASSERT_OK_AND_ASSIGN(const ToyModel small, MakeToy("toy:8m"));
  EXPECT_EQ(small.config.vocab, 1000u);
  EXPECT_EQ(small.config.hidden, 384u);
  EXPECT_EQ(small.config.layers, 4u);
  EXPECT_EQ(small.config.heads, 6u);
  EXPECT_EQ(small.config.kv_heads, 6u);
  EXPECT_EQ(small.config.head_dim, 64u);
  EXPECT_EQ(small.config.intermediate, 1024u);
  ASSERT_OK_AND_ASSIGN(const ToyModel large, MakeToy("toy:62m"));
  EXPECT_EQ(large.config.vocab, 8000u);
  EXPECT_EQ(large.config.kv_heads, 4u);
  EXPECT_FALSE(large.config.tie_word_embeddings);
  uint64_t parameters = 0;
  for (const auto& [name, tensor] : large.tensors) parameters += tensor.elements();
  EXPECT_NEAR(static_cast<double>(parameters), 62e6, 1e6);
}

TEST(ToyModel, IsVariedByKeys) {
  ASSERT_OK_AND_ASSIGN(const ToyModel toy, MakeToy("toy:62m?kv_heads=1&layers=2&seed=7&vocab=99"));
  EXPECT_EQ(toy.config.kv_heads, 1u);
  EXPECT_EQ(toy.config.layers, 2u);
  EXPECT_EQ(toy.config.vocab, 99u);
  EXPECT_EQ(toy.config.hidden, 768u);
  EXPECT_EQ(toy.tensors.at("model.layers.1.self_attn.k_proj.weight").shape,
            (std::vector<uint64_t>{64, 768}));
  EXPECT_EQ(toy.tensors.count("model.layers.2.self_attn.k_proj.weight"), 0u);
}

TEST(ToyModel, RefusesWhatMakesNoSense) {
  const auto fails = [](std::string_view spec, std::string_view word) {
    return FailsWith(StatusOf(MakeToy(spec)), StatusCode::kInvalidArgument, word);
  };
  EXPECT_TRUE(fails("toy:9m", "toy:8m and toy:62m"));
  EXPECT_TRUE(fails("toy:8m?kv_head=1", "the keys are vocab, hidden, layers, heads, kv_heads"));
  EXPECT_TRUE(fails("toy:8m?kv_heads=4", "6 attention heads are no multiple of 4"));
  EXPECT_TRUE(fails("toy:8m?kv_heads=-1", "kv_heads"));
  EXPECT_TRUE(fails("toy:8m?kv_heads", "kv_heads"));
  EXPECT_TRUE(fails("toy:8m?kv_heads=0", "num_key_value_heads"));
  EXPECT_TRUE(fails("toy:8m?heads=7", "hidden 384 is no multiple of heads 7"));
  EXPECT_TRUE(fails("toy:8m?vocab=99999999999", "vocab"));
  EXPECT_TRUE(fails("toy:8m?layers=4000&hidden=38400", "parameters"));
  EXPECT_OK(MakeToy("toy:8m?heads=12&kv_heads=4"));
}

std::vector<float> FirstValues(std::string_view spec, const std::string& name, size_t count) {
  const auto toy = MakeToy(spec);
  EXPECT_OK(toy);
  const WeightTensor& tensor = toy->tensors.at(name);
  std::vector<float> values(tensor.columns());
  tensor.ReadRows(0, 1, values);
  values.resize(count);
  return values;
}

// Fixed for ever: snapshots of a toy name it by its generator. Computed with Python and numpy.
TEST(ToyModel, NumbersNeverChange) {
  std::vector<uint32_t> bits;
  for (const float value : FirstValues("toy:8m", std::string(kEmbeddingName), 4))
    bits.push_back(std::bit_cast<uint32_t>(value));
  EXPECT_EQ(bits, (std::vector<uint32_t>{0xbed1ba1d, 0xbf87e970, 0xbe1dc080, 0xbf62c1b0}));
}

TEST(ToyModel, NumbersFollowTheSeedAndTheTensor) {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  EXPECT_EQ(FirstValues("toy:8m", q, 9), FirstValues("toy:8m?layers=2", q, 9));
  EXPECT_NE(FirstValues("toy:8m", q, 9), FirstValues("toy:8m?seed=1", q, 9));
  EXPECT_NE(FirstValues("toy:8m", q, 9),
            FirstValues("toy:8m", "model.layers.1.self_attn.q_proj.weight", 9));
}

TEST(ToyModel, NumbersHaveTheirMeanAndDeviation) {
  std::vector<float> values(100000);
  GenerateValues({.seed = 5, .mean = 1, .deviation = 2}, 0, values);
  double sum = 0, squares = 0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  EXPECT_NEAR(mean, 1, 0.03);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), 2, 0.03);
}

TEST(ToyModel, HasNoTokenizerAndSaysWhy) {
  ASSERT_OK_AND_ASSIGN(const ModelFiles model, OpenModel("toy:8m"));
  EXPECT_FALSE(model.tokenizer);
  EXPECT_NE(model.no_tokenizer_reason.find("toy"), std::string::npos);
}

}  // namespace
}  // namespace kvbed
