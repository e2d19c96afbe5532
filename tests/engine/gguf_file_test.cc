// The GGUF container, and what a GGUF file says about a Llama model and its tokenizer.
#include "engine/model/gguf_file.h"

#include <gtest/gtest.h>

#include <functional>

#include "engine/model/gguf_model.h"
#include "engine/model/gguf_tokenizer.h"
#include "engine/model/llama_tensors.h"
#include "engine/model/tokenizer.h"
#include "tests/engine/golden_model.h"
#include "tests/engine/tiny_gguf.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

// ---- the container -----------------------------------------------------------------------------

Status ParseStatus(const std::string& file) { return StatusOf(GgufFile::Parse(AsBytes(file))); }

TEST(GgufFile, GivesMetadataAndTensors) {
  GgufWriter writer;
  writer.U32("u", 7);
  writer.Raw("i", 1, LittleEndian<int8_t>(-3));
  writer.F32("f", 0.5f);
  writer.Bool("b", true);
  writer.Text("t", "text");
  writer.Texts("ts", {"one", "", "three"});
  writer.I32s("is", {-1, 2});
  writer.Tensor("a", {2, 3}, 0, FloatBytes({1, 2, 3, 4, 5, 6}));
  writer.Tensor("b", {5}, 0, FloatBytes({7, 8, 9, 10, 11}));
  for (const uint32_t version : {2u, 3u}) {
    writer.version = version;
    const std::string bytes = writer.File();
    ASSERT_OK_AND_ASSIGN(const GgufFile file, GgufFile::Parse(AsBytes(bytes)));
    EXPECT_EQ(*file.WholeNumber("u").value(), 7u);
    EXPECT_EQ(*file.Number("f").value(), 0.5);
    EXPECT_EQ(*file.Flag("b").value(), true);
    EXPECT_EQ(*file.Text("t").value(), "text");
    EXPECT_EQ(file.Texts("ts").value(), (std::vector<std::string_view>{"one", "", "three"}));
    EXPECT_EQ(file.WholeNumbers("is").value(), (std::vector<int64_t>{-1, 2}));
    EXPECT_FALSE(file.WholeNumber("absent").value());
    for (const Status& wrong :
         {StatusOf(file.WholeNumber("t")), StatusOf(file.WholeNumber("i")),
          StatusOf(file.Text("u")), StatusOf(file.Number("u")), StatusOf(file.Flag("u")),
          StatusOf(file.Texts("is")), StatusOf(file.WholeNumbers("ts")),
          StatusOf(file.WholeNumbers("u"))})
      EXPECT_TRUE(FailsWith(wrong, StatusCode::kCorruption, "metadata key"));
    ASSERT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.tensors()[0].dims, (std::vector<uint64_t>{2, 3}));
    EXPECT_EQ(AsText(file.tensors()[1].data), FloatBytes({7, 8, 9, 10, 11}));
  }
}

TEST(GgufFile, RefusesOtherVersionsAndByteOrder) {
  GgufWriter writer;
  EXPECT_OK(ParseStatus(writer.File()));
  for (const uint32_t version : {0u, 1u, 4u, 99u}) {
    writer.version = version;
    EXPECT_TRUE(FailsWith(ParseStatus(writer.File()), StatusCode::kNotSupported, "version"));
  }
  writer.version = 3u << 24;
  EXPECT_TRUE(FailsWith(ParseStatus(writer.File()), StatusCode::kNotSupported, "big-endian"));
}

TEST(GgufFile, RefusesEveryTruncation) {
  const std::string whole = TinyGguf().File();
  EXPECT_OK(ParseStatus(whole));
  for (size_t size = 0; size < whole.size(); size += 1 + size / 50)
    EXPECT_EQ(ParseStatus(whole.substr(0, size)).code(), StatusCode::kCorruption) << size;
  EXPECT_EQ(ParseStatus(whole.substr(0, whole.size() - 1)).code(), StatusCode::kCorruption);
}

TEST(GgufFile, RefusesNonsenseInMetadata) {
  const auto corrupt = [](const std::function<void(GgufWriter&)>& add, std::string_view word) {
    GgufWriter writer;
    add(writer);
    writer.data = std::string(4096, 'x');  // the file's size isn't what stops it
    return FailsWith(ParseStatus(writer.File()), StatusCode::kCorruption, word);
  };
  EXPECT_TRUE(corrupt([](auto& w) { w.U32("a", 1), w.U32("a", 1); }, "a is there twice"));
  EXPECT_TRUE(corrupt([](auto& w) { w.U32("", 1); }, "no key"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Raw("a", 99, "1234"); }, "type 99"));
  EXPECT_TRUE(
      corrupt([](auto& w) { w.Raw("a", 8, LittleEndian(uint64_t{1} << 40)); }, "end of file"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Raw("a", 8, LittleEndian(UINT64_MAX)); }, "end of file"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Array("a", 4, uint64_t{1} << 62, ""); }, "array length"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Array("a", 8, uint64_t{1} << 60, ""); }, "array length"));
  EXPECT_TRUE(corrupt([](auto& w) { w.metadata_count = uint64_t{1} << 60; }, "count"));
  EXPECT_TRUE(corrupt([](auto& w) { w.tensor_count = uint64_t{1} << 60; }, "count"));
  GgufWriter nested;
  nested.Array("a", 9, 1, "");
  EXPECT_TRUE(FailsWith(ParseStatus(nested.File()), StatusCode::kNotSupported, "array of type 9"));
}

TEST(GgufFile, RefusesAlignmentsThatAreNone) {
  for (const uint32_t alignment : {0u, 3u, 48u}) {
    TinyGguf model;
    model.SetU32("general.alignment", alignment);
    EXPECT_TRUE(FailsWith(ParseStatus(model.File()), StatusCode::kCorruption, "alignment"));
  }
  TinyGguf huge;
  huge.SetU32("general.alignment", 1u << 31);
  EXPECT_TRUE(FailsWith(ParseStatus(huge.File()), StatusCode::kCorruption, "alignment"));
  TinyGguf text;
  text.SetText("general.alignment", "32");
  EXPECT_TRUE(FailsWith(ParseStatus(text.File()), StatusCode::kCorruption, "alignment"));
  TinyGguf right;
  right.SetU32("general.alignment", 64);
  right.writer.alignment = 64;
  EXPECT_OK(ParseStatus(right.File()));
}

TEST(GgufFile, RefusesNonsenseInTensors) {
  // One good tensor of 64 bytes at 0, then `entry`.
  const auto parse = [](const std::function<void(GgufWriter&)>& entry) {
    GgufWriter writer;
    writer.Tensor("good", {16}, 0, std::string(64, 'x'));
    writer.data += std::string(64, 'y');
    entry(writer);
    return ParseStatus(writer.File());
  };
  EXPECT_OK(parse([](auto& w) { w.Entry("t", {16}, 0, 64); }));
  const auto corrupt = [&](const std::function<void(GgufWriter&)>& entry, std::string_view word) {
    return FailsWith(parse(entry), StatusCode::kCorruption, word);
  };
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("good", {16}, 0, 64); }, "good is there twice"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("t", {16}, 0, 32); }, "overlap"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("t", {16}, 0, 65); }, "offset 65"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("t", {16}, 0, 96); }, "past the end"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("t", {16}, 0, UINT64_MAX - 31); }, "past the end"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("t", {16, 0}, 0, 64); }, "dimension is 0"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("t", {}, 0, 64); }, "0 dimensions"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("t", {1, 1, 1, 1, 1}, 0, 64); }, "5 dimensions"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("t", {uint64_t{1} << 63, 2}, 0, 64); }, "overflow"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("t", {uint64_t{1} << 62}, 0, 64); }, "overflow"));
  EXPECT_TRUE(corrupt([](auto& w) { w.Entry("t", {33}, 2, 64); }, "Q4_0"));
  EXPECT_TRUE(FailsWith(parse([](auto& w) { w.Entry("t", {16}, 200, 64); }),
                        StatusCode::kNotSupported, "200"));
}

// ---- the model ---------------------------------------------------------------------------------

Result<ModelConfig> ConfigOf(const std::string& bytes) {
  KVBED_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Parse(AsBytes(bytes)));
  KVBED_ASSIGN_OR_RETURN(ModelConfig config, ReadGgufConfig(file));
  KVBED_ASSIGN_OR_RETURN(const TensorMap tensors, ReadGgufTensors(file, config));
  KVBED_RETURN_IF_ERROR(CheckLlamaTensors(config, tensors));
  return config;
}

Status ConfigAfter(const std::function<void(TinyGguf&)>& change) {
  TinyGguf model;
  change(model);
  return StatusOf(ConfigOf(model.File()));
}

TEST(GgufModel, ReadsTheConfig) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, ConfigOf(TinyGguf().File()));
  EXPECT_EQ(config.hidden, 4u);
  EXPECT_EQ(config.layers, 1u);
  EXPECT_EQ(config.heads, 2u);
  EXPECT_EQ(config.kv_heads, 1u);
  EXPECT_EQ(config.head_dim, 2u);
  EXPECT_EQ(config.intermediate, 8u);
  EXPECT_EQ(config.vocab, 258u);
  EXPECT_EQ(config.rms_norm_eps, 1e-5f);
  EXPECT_EQ(config.max_position, 64u);
  EXPECT_EQ(config.eos_ids, (std::vector<TokenId>{0}));
  EXPECT_TRUE(config.tie_word_embeddings);
  TinyGguf untied;
  untied.SetTensor("output.weight", {4, 258});
  ASSERT_OK_AND_ASSIGN(const ModelConfig other, ConfigOf(untied.File()));
  EXPECT_FALSE(other.tie_word_embeddings);
}

TEST(GgufModel, RefusesByNameWhatItCantRun) {
  EXPECT_OK(ConfigAfter([](auto&) {}));
  const auto refused = [](const std::function<void(TinyGguf&)>& change, std::string_view word) {
    return FailsWith(ConfigAfter(change), StatusCode::kNotSupported, word);
  };
  EXPECT_TRUE(refused([](auto& m) { m.SetText("general.architecture", "qwen2"); }, "qwen2"));
  EXPECT_TRUE(refused([](auto& m) { m.SetU32("llama.expert_count", 8); }, "expert_count is 8"));
  EXPECT_TRUE(
      refused([](auto& m) { m.SetU32("llama.attention.sliding_window", 8); }, "sliding_window"));
  EXPECT_TRUE(refused([](auto& m) { m.SetText("llama.rope.scaling.type", "yarn"); }, "yarn"));
  EXPECT_TRUE(refused([](auto& m) { m.SetF32("llama.rope.scaling.factor", 2); }, "linear"));
  EXPECT_TRUE(refused([](auto& m) { m.SetU32("llama.rope.dimension_count", 1); }, "rotary"));
  EXPECT_TRUE(refused([](auto& m) { m.SetU32("llama.attention.value_length", 4); }, "equal"));
  EXPECT_TRUE(refused([](auto& m) { m.SetBool("llama.attention.causal", false); }, "causal"));
  EXPECT_TRUE(refused([](auto& m) { m.SetF32("llama.logit_scale", 2); }, "logit_scale"));
  EXPECT_TRUE(refused([](auto& m) { m.SetTensor("blk.0.attn_q.bias", {4}); }, "attn_q.bias"));
  EXPECT_TRUE(refused([](auto& m) { m.SetTensor("blk.1.attn_norm.weight", {4}); }, "layers.1."));
  EXPECT_TRUE(refused([](auto& m) { m.SetU32("split.count", 2); }, "split"));
  EXPECT_OK(ConfigAfter([](auto& m) { m.SetText("llama.rope.scaling.type", "none"); }));
  EXPECT_OK(ConfigAfter([](auto& m) { m.SetU32("llama.expert_count", 0); }));
}

TEST(GgufModel, NamesWhatIsMissingOrWrong) {
  for (const char* key : {"general.architecture", "llama.block_count", "llama.embedding_length",
                          "llama.feed_forward_length", "llama.attention.head_count",
                          "llama.attention.layer_norm_rms_epsilon"})
    EXPECT_TRUE(
        FailsWith(ConfigAfter([&](auto& m) { m.keys.erase(key); }), StatusCode::kCorruption, key));
  EXPECT_TRUE(FailsWith(ConfigAfter([](auto& m) { m.tensors.erase("blk.0.ffn_up.weight"); }),
                        StatusCode::kCorruption, "model.layers.0.mlp.up_proj.weight"));
  EXPECT_TRUE(FailsWith(ConfigAfter([](auto& m) { m.tensors.erase("token_embd.weight"); }),
                        StatusCode::kCorruption, "token_embd.weight"));
  const auto corrupt = [](const std::function<void(TinyGguf&)>& change, std::string_view word) {
    return FailsWith(ConfigAfter(change), StatusCode::kCorruption, word);
  };
  EXPECT_TRUE(corrupt([](auto& m) { m.SetTensor("blk.0.ffn_up.weight", {8, 4}); }, "shape [4, 8]"));
  EXPECT_TRUE(corrupt([](auto& m) { m.SetTensor("blk.0.attn_norm.weight", {4, 1}); }, "shape"));
  EXPECT_TRUE(corrupt([](auto& m) { m.SetU32("llama.block_count", 2); }, "model.layers.1."));
  EXPECT_TRUE(corrupt([](auto& m) { m.SetU32("llama.block_count", 0); }, "num_hidden_layers"));
  EXPECT_TRUE(
      corrupt([](auto& m) { m.SetU32("llama.attention.head_count", 0); }, "num_attention_heads"));
  EXPECT_TRUE(
      corrupt([](auto& m) { m.SetU32("llama.attention.head_count_kv", 3); }, "no multiple"));
  EXPECT_TRUE(corrupt([](auto& m) { m.SetU32("llama.vocab_size", 300); }, "vocab_size"));
  EXPECT_TRUE(corrupt([](auto& m) { m.SetText("llama.block_count", "1"); }, "llama.block_count"));
  EXPECT_TRUE(
      corrupt([](auto& m) { m.SetU32("tokenizer.ggml.bos_token_id", 258); }, "bos_token_id"));
  EXPECT_TRUE(corrupt([](auto& m) { m.SetTensor("rope_freqs.weight", {2}); }, "rope_freqs.weight"));
  EXPECT_OK(ConfigAfter([](auto& m) { m.SetTensor("rope_freqs.weight", {1}); }));
}

TEST(GgufModel, OneTensorUnderTwoNamesIsRefused) {
  EXPECT_TRUE(FailsWith(ConfigAfter([](auto& m) { m.SetTensor("blk.00.attn_norm.weight", {4}); }),
                        StatusCode::kCorruption, "twice"));
}

// ---- the tokenizer -----------------------------------------------------------------------------

Result<Tokenizer> TokenizerAfter(const std::function<void(TinyGguf&)>& change) {
  TinyGguf model;
  change(model);
  const std::string bytes = model.File();
  KVBED_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Parse(AsBytes(bytes)));
  KVBED_ASSIGN_OR_RETURN(auto definition, ReadGgufTokenizer(file, 258));
  if (!definition) return Status::NotFound("no tokenizer");
  return Tokenizer::Create(*std::move(definition));
}

std::vector<TokenId> IdsAfter(const std::function<void(TinyGguf&)>& change, std::string_view text) {
  const auto tokenizer = TokenizerAfter(change);
  EXPECT_OK(tokenizer);
  const auto encoding = tokenizer->Encode(text);
  EXPECT_OK(encoding);
  return encoding->ids;
}

TEST(GgufTokenizer, EncodesWithItsMerges) {
  EXPECT_EQ(IdsAfter([](auto&) {}, "hex"), (std::vector<TokenId>{257, 1 + 'x'}));
  EXPECT_EQ(IdsAfter([](auto& m) { m.SetTexts("tokenizer.ggml.merges", {}); }, "hex"),
            (std::vector<TokenId>{1 + 'h', 1 + 'e', 1 + 'x'}));
}

TEST(GgufTokenizer, AddsBosAsTheFileOrItsPreTokenizerSays) {
  const auto with = [](const std::string& pre, std::optional<bool> add_bos) {
    return IdsAfter(
        [&](TinyGguf& m) {
          m.SetText("tokenizer.ggml.pre", pre);
          if (add_bos) m.SetBool("tokenizer.ggml.add_bos_token", *add_bos);
        },
        "x");
  };
  const std::vector<TokenId> bos = {0, 1 + 'x'}, none = {1 + 'x'};
  EXPECT_EQ(with("smollm", {}), none);
  EXPECT_EQ(with("smollm", true), bos);
  EXPECT_EQ(with("smollm", false), none);
  EXPECT_EQ(with("gpt-2", {}), none);
  EXPECT_EQ(with("llama-bpe", {}), bos);
  EXPECT_EQ(with("llama-bpe", true), bos);
  EXPECT_EQ(with("llama-bpe", false), none);
  EXPECT_EQ(IdsAfter([](auto& m) { m.SetBool("tokenizer.ggml.add_eos_token", true); }, "x"),
            (std::vector<TokenId>{1 + 'x', 0}));
}

TEST(GgufTokenizer, IsAbsentWithoutItsKeys) {
  EXPECT_TRUE(FailsWith(StatusOf(TokenizerAfter([](TinyGguf& m) {
                          m.keys.erase("tokenizer.ggml.model");
                          m.keys.erase("tokenizer.ggml.tokens");
                        })),
                        StatusCode::kNotFound, "no tokenizer"));
}

TEST(GgufTokenizer, RefusesByNameWhatItDoesNotDo) {
  const auto refused = [](const std::string& key, const std::string& value) {
    return FailsWith(StatusOf(TokenizerAfter([&](TinyGguf& m) { m.SetText(key, value); })),
                     StatusCode::kNotSupported, value);
  };
  EXPECT_TRUE(refused("tokenizer.ggml.pre", "tekken"));
  EXPECT_TRUE(refused("tokenizer.ggml.pre", "default"));
  EXPECT_TRUE(refused("tokenizer.ggml.model", "llama"));
  EXPECT_TRUE(
      FailsWith(StatusOf(TokenizerAfter([](auto& m) { m.keys.erase("tokenizer.ggml.pre"); })),
                StatusCode::kNotSupported, "tokenizer.ggml.pre"));
  EXPECT_TRUE(FailsWith(
      StatusOf(TokenizerAfter([](auto& m) { m.SetBool("tokenizer.ggml.add_space_prefix", true); })),
      StatusCode::kNotSupported, "add_space_prefix"));
}

TEST(GgufTokenizer, RefusesArraysThatDontFit) {
  const auto corrupt = [](const std::function<void(TinyGguf&)>& change, std::string_view word) {
    return FailsWith(StatusOf(TokenizerAfter(change)), StatusCode::kCorruption, word);
  };
  const auto types = [](size_t count, int32_t type) {
    return [=](TinyGguf& m) {
      m.SetI32s("tokenizer.ggml.token_type", std::vector<int32_t>(count, type));
    };
  };
  EXPECT_OK(TokenizerAfter(types(258, 1)));
  EXPECT_TRUE(corrupt(types(257, 1), "length 257"));
  EXPECT_TRUE(corrupt(types(258, 6), "holds 6"));
  EXPECT_TRUE(corrupt(types(258, 0), "holds 0"));
  EXPECT_TRUE(
      corrupt([](auto& m) { m.SetTexts("tokenizer.ggml.tokens", std::vector<std::string>(300)); },
              "300 tokens"));
  EXPECT_TRUE(corrupt([](auto& m) { m.SetU32("tokenizer.ggml.tokens", 1); }, "array of strings"));
  EXPECT_TRUE(corrupt([](auto& m) { m.keys.erase("tokenizer.ggml.tokens"); }, "tokens"));
  EXPECT_TRUE(corrupt([](auto& m) { m.keys.erase("tokenizer.ggml.merges"); }, "merges"));
  EXPECT_TRUE(corrupt(
      [](auto& m) {
        m.SetTexts("tokenizer.ggml.merges", {"h e", "he x"});
      },
      "merge 1"));
  EXPECT_TRUE(corrupt([](auto& m) { m.SetTexts("tokenizer.ggml.merges", {""}); }, "merge 0"));
  EXPECT_TRUE(corrupt(
      [](auto& m) {
        m.SetTexts("tokenizer.ggml.merges", {"h e", "h e"});
      },
      "same"));
  EXPECT_TRUE(corrupt(
      [](auto& m) {
        std::vector<std::string> tokens = TinyGguf::Tokens();
        tokens[2] = tokens[1];
        m.SetTexts("tokenizer.ggml.tokens", tokens);
      },
      "tokens 1 and 2"));
}

}  // namespace
}  // namespace kvbed
