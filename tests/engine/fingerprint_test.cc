// What changes a model's digests, which of them, and what doesn't.
#include "engine/model/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "engine/model/gguf_file.h"
#include "engine/model/model_files.h"
#include "tests/engine/golden_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

ModelDigests DigestsOf(const std::string& spec) {
  const auto model = OpenModel(spec);
  EXPECT_OK(model);
  return model.ok() ? DigestModel(*model) : ModelDigests{};
}

// A copy of a golden directory in which one file's text was changed.
ModelDigests DigestsAfter(std::string_view golden, std::string_view file,
                          const std::function<void(std::string&)>& change) {
  const TempDir temp;
  const std::string copy = temp / "model";
  std::filesystem::copy(GoldenModelPath(golden), copy);
  const std::string path = copy + "/" + std::string(file);
  std::string text = ReadFileBytes(path);
  change(text);
  WriteFileBytes(path, text);
  return DigestsOf(copy);
}

void Replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

TEST(ModelDigests, OfShardsAreThoseOfTheSingleFile) {
  EXPECT_EQ(DigestsOf(GoldenModelPath("sharded")), DigestsOf(GoldenModelPath("gqa_8_2")));
  EXPECT_NE(DigestsOf(GoldenModelPath("mha_llama3_rope")), DigestsOf(GoldenModelPath("gqa_8_2")));
}

TEST(ModelDigests, AnyWeightByteChangesTheWeightsOnly) {
  const ModelDigests before = DigestsOf(GoldenModelPath("gqa_8_2"));
  const size_t size = ReadGoldenModel("gqa_8_2/model.safetensors").size();
  for (const size_t from_end : {size_t{1}, size_t{2}, size_t{4097}, size / 2}) {
    const ModelDigests after =
        DigestsAfter("gqa_8_2", "model.safetensors", [&](std::string& bytes) {
          bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 1);
        });
    EXPECT_NE(after.weights, before.weights) << from_end;
    EXPECT_EQ(after.config, before.config);
    EXPECT_EQ(after.tokenizer, before.tokenizer);
    EXPECT_NE(after.Fingerprint(), before.Fingerprint());
  }
}

TEST(ModelDigests, DontDependOnWhereTheDataBegins) {
  // Spaces behind the header are allowed and shift all data.
  const ModelDigests after = DigestsAfter("gqa_8_2", "model.safetensors", [](std::string& bytes) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    bytes.insert(8 + length, 3, ' ');
    length += 3;
    std::memcpy(bytes.data(), &length, 8);
  });
  EXPECT_EQ(after, DigestsOf(GoldenModelPath("gqa_8_2")));
}

TEST(ModelDigests, AnotherConfigValueChangesTheConfigOnly) {
  for (const auto& [from, to] : {std::pair{"\"rope_theta\": 10000.0", "\"rope_theta\": 10001.0"},
                                 std::pair{"\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e-06"}}) {
    const ModelDigests before = DigestsOf(GoldenModelPath("gqa_8_2"));
    const ModelDigests after =
        DigestsAfter("gqa_8_2", "config.json", [&](std::string& text) { Replace(text, from, to); });
    EXPECT_EQ(after.weights, before.weights) << to;
    EXPECT_NE(after.config, before.config) << to;
    EXPECT_EQ(after.tokenizer, before.tokenizer) << to;
  }
  const ModelDigests before = DigestsOf(GoldenModelPath("mha_llama3_rope"));
  const ModelDigests after = DigestsAfter("mha_llama3_rope", "config.json", [](std::string& text) {
    Replace(text, "\"high_freq_factor\": 4.0", "\"high_freq_factor\": 5.0");
  });
  EXPECT_NE(after.config, before.config);
}

TEST(ModelDigests, OtherWordsForTheSameConfigChangeNothing) {
  const ModelDigests before = DigestsOf(GoldenModelPath("gqa_8_2"));
  const auto same = [&](std::string_view from, std::string_view to) {
    return DigestsAfter("gqa_8_2", "config.json",
                        [&](std::string& text) { Replace(text, from, to); }) == before;
  };
  EXPECT_TRUE(same("\"rope_theta\": 10000.0", "\"rope_theta\": 1e4"));
  EXPECT_TRUE(same("\"rope_scaling\": null", "\"head_dim\": 16"));
  EXPECT_TRUE(same("\"torch_dtype\"", "\"dtype\""));
  EXPECT_TRUE(same("\"rope_theta\": 10000.0",
                   "\"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": \"default\"}"));
  EXPECT_TRUE(same("\"max_position_embeddings\": 512", "\"max_position_embeddings\": 4096"));
}

TEST(ModelDigests, AnotherTokenizerChangesTheTokenizerOnly) {
  const ModelDigests before = DigestsOf(GoldenModelPath("gqa_8_2"));
  const auto after = [&](std::string_view from, std::string_view to) {
    return DigestsAfter("gqa_8_2", "tokenizer.json", [&](std::string& text) {
      Replace(text, from, to);
      if (from.starts_with('<')) Replace(text, from, to);  // added token and vocabulary
    });
  };
  for (const ModelDigests& digests :
       {after("\"ignore_merges\":false", "\"ignore_merges\":true"),
        after("\"special\":true", "\"special\":false"), after("<|im_start|>", "<|im_begin|>")}) {
    EXPECT_EQ(digests.weights, before.weights);
    EXPECT_EQ(digests.config, before.config);
    EXPECT_NE(digests.tokenizer, before.tokenizer);
  }
  EXPECT_EQ(after("\"truncation\":null", "\"truncation\" : null"), before);
}

TEST(ModelDigests, AGgufFileHasItsHuggingFaceTokenizersDigest) {
  EXPECT_EQ(DigestsOf(GoldenModelPath("mha_llama3_rope.f32.gguf")).tokenizer,
            DigestsOf(GoldenModelPath("mha_llama3_rope")).tokenizer);
  EXPECT_EQ(DigestsOf(GoldenModelPath("malformed/valid.gguf")).config,
            DigestsOf(GoldenModelPath("malformed/valid_dir")).config);
}

TEST(ModelDigests, AGgufFilesFrequencyDivisorsAreConfig) {
  const std::string original = ReadGoldenModel("mha_llama3_rope.f32.gguf");
  const ModelDigests before = DigestsOf(GoldenModelPath("mha_llama3_rope.f32.gguf"));
  const TempDir temp;
  std::string changed = original;
  ASSERT_OK_AND_ASSIGN(const GgufFile file, GgufFile::Parse(AsBytes(original)));
  ASSERT_EQ(file.tensors()[0].name, "rope_freqs.weight");
  const auto at = file.tensors()[0].data.data() - AsBytes(original).data();
  changed[at] = static_cast<char>(changed[at] ^ 1);
  WriteFileBytes(temp / "m.gguf", changed);
  const ModelDigests after = DigestsOf(temp / "m.gguf");
  EXPECT_NE(after.config, before.config);
  EXPECT_EQ(after.weights, before.weights);
}

TEST(ModelDigests, ToysDifferByShapeAndSeed) {
  const ModelDigests toy = DigestsOf("toy:8m");
  EXPECT_EQ(DigestsOf("toy:8m?seed=0"), toy);
  EXPECT_NE(DigestsOf("toy:8m?seed=1").weights, toy.weights);
  EXPECT_EQ(DigestsOf("toy:8m?seed=1").config, toy.config);
  EXPECT_NE(DigestsOf("toy:8m?kv_heads=2").weights, toy.weights);
  EXPECT_NE(DigestsOf("toy:8m?kv_heads=2").config, toy.config);
}

// Tensors whose names and bytes would run together without length fields.
TEST(ModelDigests, FieldsDontRunTogether) {
  const std::string bytes(8, 'x');
  const auto digest = [&](std::string_view name, std::vector<uint64_t> shape, size_t size) {
    TensorMap tensors;
    WeightTensor tensor;
    tensor.name = name;
    tensor.shape = std::move(shape);
    tensor.stored = AsBytes(bytes).first(size);
    tensors.emplace(std::string(name), tensor);
    return DigestWeights(Weights({}, std::move(tensors)));
  };
  EXPECT_EQ(digest("ab", {2}, 8), digest("ab", {2}, 8));
  EXPECT_NE(digest("ab", {2}, 8), digest("abx", {2}, 8));
  EXPECT_NE(digest("ab", {2}, 8), digest("ab", {1, 2}, 8));
  EXPECT_NE(digest("ab", {2}, 8), digest("ab", {2}, 7));
}

}  // namespace
}  // namespace kvbed
