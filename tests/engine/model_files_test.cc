// Opening any MODEL: what works, and errors that say what, where, why and what to do.
#include "engine/model/model_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "engine/model/hf_directory.h"
#include "tests/engine/golden_model.h"
#include "tests/engine/model_writers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

TEST(OpenModel, NamesTheFaultOfEveryMalformedModel) {
  const Json manifest = ReadGoldenModelJson("malformed/manifest.json");
  size_t good = 0, bad = 0;
  for (const Json& test : manifest["cases"]) {
    const auto model = OpenModel(GoldenModelPath("malformed/" + test["path"].get<std::string>()));
    if (test["error_should_name_one_of"].empty()) {
      EXPECT_OK(model);
      ++good;
      continue;
    }
    ++bad;
    ASSERT_FALSE(model.ok()) << test["name"];
    // The fault itself, not the path, which names it too.
    std::string message = model.status().message();
    const std::string directory = GoldenModelPath("malformed/");
    ASSERT_TRUE(message.starts_with(directory)) << message;
    message = Lower(message.substr(message.find(": ", directory.size())));
    EXPECT_TRUE(std::ranges::any_of(test["error_should_name_one_of"],
                                    [&](const Json& word) {
                                      return message.find(Lower(word.get<std::string>())) !=
                                             std::string::npos;
                                    }))
        << test["name"] << ": " << message;
  }
  EXPECT_EQ(good, 2u);
  EXPECT_GE(bad, 26u);
}

TEST(OpenModel, OpensEachKind) {
  for (const char* name : {"gqa_8_2", "mha_llama3_rope", "sharded", "mha_llama3_rope.f32.gguf",
                           "mha_llama3_rope.bf16.gguf"}) {
    ASSERT_OK_AND_ASSIGN(const ModelFiles model, OpenModel(GoldenModelPath(name)));
    EXPECT_EQ(model.name, name);
    EXPECT_TRUE(model.warnings.empty());
    EXPECT_TRUE(model.tokenizer);
    EXPECT_EQ(model.no_tokenizer_reason, "");
    EXPECT_EQ(model.config.bos_ids, (std::vector<TokenId>{1}));
    EXPECT_EQ(model.config.eos_ids, (std::vector<TokenId>{2}));
  }
  ASSERT_OK_AND_ASSIGN(const ModelFiles slash, OpenModel(GoldenModelPath("gqa_8_2/")));
  EXPECT_EQ(slash.name, "gqa_8_2");
  EXPECT_EQ(slash.config.stored_dtype, "BF16");
}

TEST(OpenModel, AGgufFileAndItsHuggingFaceDirectoryAgree) {
  ASSERT_OK_AND_ASSIGN(const ModelFiles gguf, OpenModel(GoldenModelPath("malformed/valid.gguf")));
  ASSERT_OK_AND_ASSIGN(const ModelFiles hf, OpenModel(GoldenModelPath("malformed/valid_dir")));
  EXPECT_EQ(gguf.config, hf.config);
}

TEST(OpenModel, SaysWhatIsWrongWithThePath) {
  const TempDir temp;
  const auto fails = [](const std::string& path, StatusCode code, std::string_view word) {
    return FailsWith(StatusOf(OpenModel(path)), code, word);
  };
  EXPECT_TRUE(fails("", StatusCode::kInvalidArgument, "empty"));
  EXPECT_TRUE(fails(std::string("a\0b", 3), StatusCode::kInvalidArgument, "zero byte"));
  EXPECT_TRUE(fails(temp / "absent.gguf", StatusCode::kNotFound, "absent.gguf doesn't exist"));
  EXPECT_TRUE(fails("org/model", StatusCode::kNotFound, "Nothing is downloaded"));
  EXPECT_TRUE(fails(temp.path(), StatusCode::kNotFound, "config.json"));
  EXPECT_TRUE(fails(GoldenModelPath("gqa_8_2/model.safetensors"), StatusCode::kInvalidArgument,
                    "directory"));
  EXPECT_TRUE(
      fails(GoldenModelPath("gqa_8_2/config.json"), StatusCode::kInvalidArgument, "directory"));
  EXPECT_TRUE(fails(GoldenModelPath("README.md"), StatusCode::kCorruption, "not GGUF"));
  EXPECT_TRUE(fails(GoldenModelPath("README.md/x"), StatusCode::kNotFound, ""));
  ASSERT_EQ(::mkfifo((temp / "fifo").c_str(), 0600), 0);
  EXPECT_TRUE(fails(temp / "fifo", StatusCode::kInvalidArgument, "no regular file"));
  WriteFileBytes(temp / "empty.gguf", "");
  EXPECT_TRUE(fails(temp / "empty.gguf", StatusCode::kCorruption, "end of file"));
  WriteFileBytes(temp / "lfs.gguf",
                 "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
  EXPECT_TRUE(fails(temp / "lfs.gguf", StatusCode::kCorruption, "git lfs pull"));
}

// ---- Hugging Face directories ------------------------------------------------------------------

// A copy of a golden directory to damage.
class ModelCopy {
 public:
  explicit ModelCopy(std::string_view golden) : path_(temp_ / "model") {
    fs::copy(GoldenModelPath(golden), path_);
  }
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view file) const { return path_ + "/" + std::string(file); }
  Result<ModelFiles> Open() const { return OpenModel(path_); }
  void Remove(std::string_view file) const { fs::remove(*this / file); }
  void SetConfig(const std::string& key, const Json& value) const {
    Json config = Json::parse(ReadFileBytes(*this / "config.json"));
    config[key] = value;
    WriteFileBytes(*this / "config.json", config.dump());
  }
  // Adds a tensor to model.safetensors.
  void AddTensor(const std::string& name, const std::string& dtype,
                 const std::vector<uint64_t>& shape, std::string_view bytes) const {
    const std::string file = ReadFileBytes(*this / "model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    Json header = Json::parse(file.substr(8, length));
    const std::string data = file.substr(8 + length);
    header[name] = {{"dtype", dtype},
                    {"shape", shape},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    WriteFileBytes(*this / "model.safetensors",
                   SafetensorsOf(header.dump(), data + std::string(bytes)));
  }

 private:
  TempDir temp_;
  std::string path_;
};

TEST(HfDirectory, SaysWhichFileIsMissing) {
  ModelCopy no_weights("gqa_8_2");
  no_weights.Remove("model.safetensors");
  EXPECT_TRUE(FailsWith(StatusOf(no_weights.Open()), StatusCode::kNotFound, "model.safetensors"));
  WriteFileBytes(no_weights / "pytorch_model.bin", "x");
  EXPECT_TRUE(FailsWith(StatusOf(no_weights.Open()), StatusCode::kNotFound, "pytorch_model.bin"));
  ModelCopy no_shard("sharded");
  no_shard.Remove("model-00002-of-00002.safetensors");
  EXPECT_TRUE(FailsWith(StatusOf(no_shard.Open()), StatusCode::kNotFound, "model-00002-of-00002"));
}

TEST(HfDirectory, OpensWithoutATokenizerAndSaysWhy) {
  ModelCopy copy("gqa_8_2");
  copy.Remove("tokenizer.json");
  ASSERT_OK_AND_ASSIGN(const ModelFiles model, copy.Open());
  EXPECT_FALSE(model.tokenizer);
  EXPECT_NE(model.no_tokenizer_reason.find("tokenizer.json"), std::string::npos);
}

TEST(HfDirectory, RefusesPointersInPlaceOfFiles) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  for (const char* file : {"model.safetensors", "tokenizer.json", "config.json"}) {
    ModelCopy copy("gqa_8_2");
    WriteFileBytes(copy / file, pointer);
    EXPECT_TRUE(FailsWith(StatusOf(copy.Open()), StatusCode::kCorruption, file));
    EXPECT_TRUE(FailsWith(StatusOf(copy.Open()), StatusCode::kCorruption, "git lfs pull"));
  }
}

TEST(HfDirectory, TakesGenerationConfigsEosIds) {
  ModelCopy copy("gqa_8_2");
  WriteFileBytes(copy / "generation_config.json", R"({"eos_token_id":[2,5]})");
  ASSERT_OK_AND_ASSIGN(const ModelFiles model, copy.Open());
  EXPECT_EQ(model.config.eos_ids, (std::vector<TokenId>{2, 5}));
}

TEST(HfDirectory, SettlesTiedEmbeddingsInAllFourCases) {
  const std::string file = ReadGoldenModel("gqa_8_2/model.safetensors");
  const auto parsed = OpenModel(GoldenModelPath("gqa_8_2"));
  ASSERT_OK(parsed);
  const std::string embedding(AsText(parsed->weights.At(kEmbeddingName).stored));
  std::string other = embedding;
  other[100] = static_cast<char>(other[100] ^ 1);
  const std::string head(kOutputName);

  ModelCopy tied_equal("gqa_8_2");
  tied_equal.AddTensor(head, "BF16", {320, 128}, embedding);
  ASSERT_OK_AND_ASSIGN(const ModelFiles equal, tied_equal.Open());
  EXPECT_TRUE(equal.config.tie_word_embeddings);
  EXPECT_EQ(equal.weights.Find(kOutputName), nullptr);
  EXPECT_TRUE(equal.warnings.empty());
  EXPECT_EQ(DigestModel(equal), DigestModel(*parsed));

  ModelCopy tied_different("gqa_8_2");
  tied_different.AddTensor(head, "BF16", {320, 128}, other);
  ASSERT_OK_AND_ASSIGN(const ModelFiles different, tied_different.Open());
  EXPECT_FALSE(different.config.tie_word_embeddings);
  EXPECT_NE(different.weights.Find(kOutputName), nullptr);
  ASSERT_EQ(different.warnings.size(), 1u);
  EXPECT_NE(different.warnings[0].find("lm_head.weight"), std::string::npos);

  ModelCopy untied("gqa_8_2");
  untied.SetConfig("tie_word_embeddings", false);
  EXPECT_TRUE(FailsWith(StatusOf(untied.Open()), StatusCode::kCorruption, "lm_head.weight"));
  untied.AddTensor(head, "BF16", {320, 128}, other);
  ASSERT_OK_AND_ASSIGN(const ModelFiles present, untied.Open());
  EXPECT_FALSE(present.config.tie_word_embeddings);
  EXPECT_TRUE(present.warnings.empty());
}

TEST(HfDirectory, RefusesOrReportsTensorsThatTheModelHasNoPlaceFor) {
  ModelCopy bias("gqa_8_2");
  bias.AddTensor("model.layers.0.self_attn.q_proj.bias", "BF16", {128}, std::string(256, 'x'));
  EXPECT_TRUE(FailsWith(StatusOf(bias.Open()), StatusCode::kNotSupported, "q_proj.bias"));
  ModelCopy other("gqa_8_2");
  other.AddTensor("aaa", "U8", {3}, "xyz");
  ASSERT_OK_AND_ASSIGN(const ModelFiles with_other, other.Open());
  ASSERT_EQ(with_other.warnings.size(), 1u);
  EXPECT_NE(with_other.warnings[0].find("aaa"), std::string::npos);
  ModelCopy frequencies("gqa_8_2");
  frequencies.AddTensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {8},
                        std::string(32, 'x'));
  ASSERT_OK_AND_ASSIGN(const ModelFiles with_frequencies, frequencies.Open());
  EXPECT_TRUE(with_frequencies.warnings.empty());
}

TEST(HfDirectory, ChecksShapesTypesAndVocabulary) {
  ModelCopy wide("gqa_8_2");
  wide.SetConfig("intermediate_size", 32);
  EXPECT_TRUE(
      FailsWith(StatusOf(wide.Open()), StatusCode::kCorruption, "the config calls for [32, 128]"));
  ModelCopy integers("gqa_8_2");
  integers.SetConfig("tie_word_embeddings", false);
  integers.AddTensor("lm_head.weight", "I16", {320, 128}, std::string(320 * 256, 'x'));
  EXPECT_TRUE(FailsWith(StatusOf(integers.Open()), StatusCode::kNotSupported, "dtype I16"));
  ModelCopy tokens("gqa_8_2");
  std::string text = ReadFileBytes(tokens / "tokenizer.json");
  text.replace(text.find("\"<|im_end|>\":2"), 14, "\"<|im_end|>\":9,\"<|im_end|>x\":321");
  WriteFileBytes(tokens / "tokenizer.json", text);
  EXPECT_FALSE(tokens.Open().ok());
}

TEST(HfDirectory, ChecksTheIndexOfShards) {
  const auto after = [](const std::function<void(Json&)>& change) {
    ModelCopy copy("sharded");
    Json index = Json::parse(ReadFileBytes(copy / "model.safetensors.index.json"));
    change(index["weight_map"]);
    WriteFileBytes(copy / "model.safetensors.index.json", index.dump());
    return StatusOf(copy.Open());
  };
  const std::string first = "model-00001-of-00002.safetensors";
  EXPECT_OK(after([](Json&) {}));
  EXPECT_TRUE(FailsWith(after([&](Json& map) { map["model.norm.weight"] = first; }),
                        StatusCode::kCorruption, "model.norm.weight"));
  EXPECT_TRUE(FailsWith(after([](Json& map) { map["model.norm.weight"] = "../x.safetensors"; }),
                        StatusCode::kCorruption, "must be a name in this directory"));
  EXPECT_TRUE(FailsWith(after([](Json& map) { map["model.norm.weight"] = 7; }),
                        StatusCode::kCorruption, "model.norm.weight"));
  EXPECT_TRUE(FailsWith(after([](Json& map) { map = Json::object(); }), StatusCode::kCorruption,
                        "weight_map"));
  EXPECT_TRUE(FailsWith(after([&](Json& map) { map["model.extra"] = first; }),
                        StatusCode::kCorruption, "model.extra"));

  ModelCopy repeated("sharded");
  fs::copy(repeated / first, repeated / "model-00003-of-00002.safetensors");
  Json index = Json::parse(ReadFileBytes(repeated / "model.safetensors.index.json"));
  index["weight_map"]["other"] = "model-00003-of-00002.safetensors";
  WriteFileBytes(repeated / "model.safetensors.index.json", index.dump());
  EXPECT_TRUE(FailsWith(StatusOf(repeated.Open()), StatusCode::kCorruption, "another shard"));
}

TEST(HfDirectory, RefusesTextFilesOfAbsurdSize) {
  ModelCopy copy("gqa_8_2");
  fs::resize_file(copy / "config.json", 2 << 20);
  EXPECT_TRUE(FailsWith(StatusOf(copy.Open()), StatusCode::kNotSupported, "limit"));
}

}  // namespace
}  // namespace kvbed
