// Values of tensors by rows: as stored, at any alignment, in Hugging Face's order, as fp32 and
// bf16.
#include "engine/model/weights.h"

#include <gtest/gtest.h>

#include "engine/model/float_formats.h"
#include "engine/model/model_files.h"
#include "engine/model/safetensors_file.h"
#include "tests/engine/golden_model.h"
#include "tests/engine/model_writers.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

std::vector<float> AllRows(const WeightTensor& tensor) {
  std::vector<float> values(tensor.elements());
  tensor.ReadRows(0, tensor.rows(), values);
  return values;
}

std::vector<uint16_t> AllRowsBf16(const WeightTensor& tensor) {
  std::vector<uint16_t> values(tensor.elements());
  tensor.ReadRowsBf16(0, tensor.rows(), values);
  return values;
}

TEST(WeightTensor, RowRangesArePartsOfTheWhole) {
  for (const char* spec : {"toy:8m?layers=1", "gqa", "gguf"}) {
    const std::string path = std::string_view(spec) == "gqa" ? GoldenModelPath("gqa_8_2")
                             : std::string_view(spec) == "gguf"
                                 ? GoldenModelPath("mha_llama3_rope.bf16.gguf")
                                 : spec;
    ASSERT_OK_AND_ASSIGN(const ModelFiles model, OpenModel(path));
    for (const std::string_view part : kLayerParts) {
      const WeightTensor& tensor = model.weights.At(LayerTensorName(0, part));
      const std::vector<float> whole = AllRows(tensor);
      const uint64_t first = tensor.rows() / 3, count = tensor.rows() - first;
      std::vector<float> range(count * tensor.columns());
      tensor.ReadRows(first, count, range);
      EXPECT_TRUE(std::equal(range.begin(), range.end(), whole.begin() + first * tensor.columns()))
          << spec << " " << part;
    }
  }
}

TEST(WeightTensor, Bf16IsTheRoundedFp32) {
  for (const char* name : {"mha_llama3_rope", "mha_llama3_rope.f32.gguf"}) {
    ASSERT_OK_AND_ASSIGN(const ModelFiles model, OpenModel(GoldenModelPath(name)));
    for (const auto& [tensor_name, tensor] : model.weights.tensors()) {
      std::vector<uint16_t> rounded;
      for (const float value : AllRows(tensor)) rounded.push_back(FloatToBf16(value));
      EXPECT_EQ(AllRowsBf16(tensor), rounded) << name << " " << tensor_name;
    }
  }
}

TEST(WeightTensor, AGgufFilesRowsComeInHuggingFacesOrder) {
  ASSERT_OK_AND_ASSIGN(const ModelFiles gguf,
                       OpenModel(GoldenModelPath("mha_llama3_rope.f32.gguf")));
  ASSERT_OK_AND_ASSIGN(const ModelFiles hf, OpenModel(GoldenModelPath("mha_llama3_rope")));
  ASSERT_EQ(gguf.weights.tensors().size(), hf.weights.tensors().size());
  for (const auto& [name, tensor] : hf.weights.tensors())
    EXPECT_EQ(AllRows(gguf.weights.At(name)), AllRows(tensor)) << name;
  // The order matters for this check to mean something.
  WeightTensor as_stored = gguf.weights.At("model.layers.0.self_attn.q_proj.weight");
  as_stored.interleaved_head_dim = 0;
  EXPECT_NE(AllRows(as_stored), AllRows(hf.weights.At(as_stored.name)));
}

TEST(WeightTensor, InterleavedRowsOfHeadsGoBackToHalves) {
  // Two heads of 4 rows with one column: stored pairs (0, 2), (1, 3).
  const std::string stored = FloatBytes({0, 2, 1, 3, 10, 12, 11, 13});
  const WeightTensor tensor{.name = "q",
                            .shape = {8, 1},
                            .type = StoredType::kF32,
                            .stored = AsBytes(stored),
                            .interleaved_head_dim = 4,
                            .generator = {}};
  EXPECT_EQ(AllRows(tensor), (std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13}));
}

TEST(WeightTensor, ShardsHoldTheValuesOfTheSingleFile) {
  ASSERT_OK_AND_ASSIGN(const ModelFiles single, OpenModel(GoldenModelPath("gqa_8_2")));
  ASSERT_OK_AND_ASSIGN(const ModelFiles shards, OpenModel(GoldenModelPath("sharded")));
  ASSERT_EQ(shards.weights.tensors().size(), single.weights.tensors().size());
  EXPECT_EQ(shards.weights.stored_bytes(), single.weights.stored_bytes());
  for (const auto& [name, tensor] : single.weights.tensors())
    EXPECT_EQ(AllRows(shards.weights.At(name)), AllRows(tensor)) << name;
}

// A U8 tensor of 3 bytes before a BF16 and an F32 one, behind a header of odd length.
TEST(WeightTensor, UnalignedDataHasTheSameValues) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("b":{"dtype":"BF16","shape":[2,2],"data_offsets":[3,11]},)"
                             R"("c":{"dtype":"F32","shape":[2],"data_offsets":[11,19]}})";
  for (const std::string& padded : {header, header + " ", header + "  "}) {
    const std::string file =
        SafetensorsOf(padded, "abc" + LittleEndian<uint16_t>(0x3f80) +
                                  LittleEndian<uint16_t>(0x4000) + LittleEndian<uint16_t>(0xbf80) +
                                  LittleEndian<uint16_t>(0x3e80) + FloatBytes({1.5f, -2.25f}));
    ASSERT_OK_AND_ASSIGN(const auto tensors, ParseSafetensors(AsBytes(file)));
    ASSERT_EQ(tensors.size(), 3u);
    const WeightTensor b{.name = "b",
                         .shape = tensors[1].shape,
                         .type = StoredType::kBf16,
                         .stored = tensors[1].data,
                         .generator = {}};
    const WeightTensor c{.name = "c",
                         .shape = tensors[2].shape,
                         .type = StoredType::kF32,
                         .stored = tensors[2].data,
                         .generator = {}};
    EXPECT_EQ(AllRows(b), (std::vector<float>{1, 2, -1, 0.25}));
    EXPECT_EQ(AllRowsBf16(b), (std::vector<uint16_t>{0x3f80, 0x4000, 0xbf80, 0x3e80}));
    EXPECT_EQ(AllRows(c), (std::vector<float>{1.5f, -2.25f}));
  }
}

TEST(Weights, FindsByName) {
  ASSERT_OK_AND_ASSIGN(const ModelFiles model, OpenModel(GoldenModelPath("gqa_8_2")));
  EXPECT_NE(model.weights.Find(kEmbeddingName), nullptr);
  EXPECT_EQ(model.weights.Find(kOutputName), nullptr) << "the embeddings are tied";
  EXPECT_EQ(model.weights.Find("no.such.weight"), nullptr);
}

}  // namespace
}  // namespace kvbed
