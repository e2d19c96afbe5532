#include "tools/shape_names.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/bench/bench_shape.h"

namespace kvbed {
namespace {

constexpr const char* kConfig =
    R"({"model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536,
        "vocab_size": 49152, "tie_word_embeddings": true})";

std::string Written(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

TEST(FindShape, TakesANameAFileOrItsFolder) {
  const TempDir dir;
  const std::string file = Written(dir / "config.json", kConfig);
  EXPECT_EQ(FindShape("smollm2-135m")->source, "HuggingFaceTB/SmolLM2-135M-Instruct");
  EXPECT_EQ(FindShape(file)->layers, 30u);
  EXPECT_EQ(FindShape(dir.path())->source, file);
}

TEST(FindShape, NamesTheNearestAndAllOthers) {
  const Status status = FindShape("llama-3-8b").status();
  EXPECT_TRUE(FailsWith(status, StatusCode::kInvalidArgument, "did you mean llama3-8b?"));
  EXPECT_TRUE(FailsWith(status, StatusCode::kInvalidArgument, "mixtral-8x7b, deepseek-v2-lite"));
  EXPECT_TRUE(FailsWith(FindShape("mistral-7b").status(), StatusCode::kInvalidArgument,
                        "did you mean mistral-7b-v0.1?"));
  const Status far = FindShape("zzzzzzzzzzzzzzzzzzz").status();
  EXPECT_EQ(far.message().find("did you mean"), std::string::npos);
  EXPECT_TRUE(FailsWith(FindShape("").status(), StatusCode::kInvalidArgument, "llama3-8b"));
}

TEST(FindShape, SaysWhatIsWrongWithAFile) {
  const TempDir dir;
  EXPECT_TRUE(FailsWith(FindShape(dir / "no.json").status(), StatusCode::kNotFound, "there is no"));
  EXPECT_TRUE(FailsWith(FindShape(dir.path()).status(), StatusCode::kNotFound, "config.json"));
  EXPECT_TRUE(FailsWith(FindShape("/dev/zero").status(), StatusCode::kIoError, "no regular file"));
  const std::string cut = Written(dir / "cut.json", std::string(kConfig).substr(0, 60));
  EXPECT_TRUE(FailsWith(FindShape(cut).status(), StatusCode::kCorruption, "cut.json: JSON"));
  const std::string other = Written(dir / "other.json", R"({"model_type": "mamba2"})");
  EXPECT_TRUE(FailsWith(FindShape(other).status(), StatusCode::kNotSupported, "\"mamba2\""));
  const std::string large = Written(dir / "large.json", std::string((1 << 20) + 1, ' '));
  EXPECT_TRUE(FailsWith(FindShape(large).status(), StatusCode::kIoError, "above 1 MiB"));
}

TEST(FindBenchShape, RefusesLatentAttentionByName) {
  EXPECT_TRUE(FailsWith(FindBenchShape("deepseek-v3").status(), StatusCode::kInvalidArgument,
                        "multi-head latent attention"));
  EXPECT_OK(FindShape("deepseek-v3"));
}

TEST(FindBenchShape, RefusesContextsBeyondAWindow) {
  const BenchShape windowed = *FindBenchShape("mistral-7b-v0.1");
  EXPECT_OK(windowed.CheckContext(4096));
  EXPECT_TRUE(
      FailsWith(windowed.CheckContext(4097), StatusCode::kInvalidArgument, "sliding window"));
  EXPECT_OK(FindBenchShape("mistral-7b-v0.3")->CheckContext(131072));
}

TEST(FindBenchShape, SplitsRecordsByRank) {
  const BenchShape shape = *FindBenchShape("llama3-8b");
  const auto token_bytes = [&](uint32_t ranks) {
    return shape.RankGeometry(DType::kBf16, 16, *SplitKv(shape.sizes, ranks)).kv_bytes_per_token();
  };
  EXPECT_EQ(token_bytes(1), 131072u);
  EXPECT_EQ(token_bytes(4), 32768u);
  EXPECT_EQ(token_bytes(16), 16384u);  // one head, which another rank has too
  EXPECT_FALSE(SplitKv(shape.sizes, 5).ok());
}

TEST(FindBenchShape, HasRecordsOfOneByteElements) {
  const BenchShape shape = *FindBenchShape("llama3-8b");
  EXPECT_EQ(shape.Geometry(DType::kBf16, 16).kv_bytes_per_token(), 131072u);
  EXPECT_EQ(shape.Geometry(DType::kFp8, 16).kv_bytes_per_token(), 65536u);
  EXPECT_OK(shape.Geometry(DType::kInt8, 16).Validate());
}

}  // namespace
}  // namespace kvbed
