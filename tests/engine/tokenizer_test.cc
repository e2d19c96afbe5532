// Text to ids and back, against ids that other software gave for the same tokenizers and texts.
#include "engine/model/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/model/model_files.h"
#include "engine/model/tokenizer_json.h"
#include "tests/engine/golden_model.h"
#include "tests/support/require.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

using Ids = std::vector<TokenId>;

Result<Tokenizer> TokenizerOf(std::string_view json_text) {
  KVBED_ASSIGN_OR_RETURN(TokenizerDefinition definition, ParseTokenizerJson(json_text));
  return Tokenizer::Create(std::move(definition));
}

Tokenizer GoldenTokenizer(const std::string& name) {
  auto tokenizer = TokenizerOf(ReadGoldenModel("tokenizers/" + name + ".tokenizer.json"));
  EXPECT_OK(tokenizer);
  return std::move(tokenizer).value();
}

std::string BytesOf(const nlohmann::json& row) {
  return *FromHex(row["bytes_hex"].get<std::string>());
}

Ids IdsOf(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  const auto encoding = tokenizer.Encode(text, options);
  EXPECT_OK(encoding);
  return encoding.ok() ? encoding->ids : Ids{};
}

constexpr EncodeOptions kPlain = {.parse_special = false, .add_special = false};
constexpr EncodeOptions kParsed = {.parse_special = true, .add_special = false};

// ---- against Hugging Face's tokenizers ---------------------------------------------------------

TEST(Tokenizer, GivesTheIdsOfHuggingFaces) {
  for (const std::string name : {"llama3", "llama3_merges", "gpt2", "digits"}) {
    const Tokenizer tokenizer = GoldenTokenizer(name);
    const auto golden = ReadGoldenModelJson("tokenizers/" + name + ".golden.json");
    ASSERT_GT(golden["texts"].size(), 200u);
    for (const auto& row : golden["texts"]) {
      const std::string text = BytesOf(row);
      const bool special = row["special"];
      EXPECT_EQ(IdsOf(tokenizer, text, special ? kParsed : kPlain), row["ids"].get<Ids>())
          << name << " " << row["bytes_hex"];
      EXPECT_EQ(IdsOf(tokenizer, text, {.parse_special = special, .add_special = true}),
                row["ids_with_added"].get<Ids>())
          << name << " " << row["bytes_hex"];
      EXPECT_EQ(tokenizer.Decode(IdsOf(tokenizer, text, kPlain)), text) << row["bytes_hex"];
    }
  }
}

TEST(Tokenizer, TheKindsOfGoldenDiffer) {
  // So that a tokenizer that ignored its pre-tokenizer or ignore_merges could not pass.
  const auto ids = [](const std::string& name, std::string_view text) {
    return IdsOf(GoldenTokenizer(name), text, kPlain);
  };
  EXPECT_NE(ids("llama3", " storages"), ids("llama3_merges", " storages"));
  EXPECT_NE(ids("gpt2", "   7"), ids("digits", "   7"));
  EXPECT_EQ(ids("llama3", " storages").size(), 1u) << "a vocabulary hit before merges";
}

// ---- SmolLM2 -----------------------------------------------------------------------------------

class SmolLM2Tokenizer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::string_view(KVBED_SMOLLM2_GGUF).empty()) return;
    auto model = OpenModel(KVBED_SMOLLM2_GGUF);
    ASSERT_OK(model);
    ASSERT_TRUE(model->tokenizer);
    tokenizer_.emplace(*std::move(model->tokenizer));
  }
  static void TearDownTestSuite() { tokenizer_.reset(); }
  void SetUp() override {
    if (!tokenizer_) KVBED_SKIP_OR_FAIL("SmolLM2's GGUF file isn't installed");
  }
  static std::optional<Tokenizer> tokenizer_;
};
std::optional<Tokenizer> SmolLM2Tokenizer::tokenizer_;

TEST_F(SmolLM2Tokenizer, GivesTheIdsOfItsDefinition) {
  const auto golden = ReadGoldenModelJson("tokenizer_smollm2.json");
  ASSERT_GT(golden["strings"].size(), 100u);
  for (const auto& row : golden["strings"]) {
    const std::string bytes = BytesOf(row);
    const Ids ids = IdsOf(*tokenizer_, bytes, row["special"] ? kParsed : kPlain);
    EXPECT_EQ(ids, row["ids"].get<Ids>()) << row["name"];
    EXPECT_EQ(tokenizer_->Decode(ids), bytes) << row["name"];
  }
}

TEST_F(SmolLM2Tokenizer, NamesTheByteThatHasNoToken) {
  const auto golden = ReadGoldenModelJson("tokenizer_smollm2.json");
  ASSERT_FALSE(golden["unencodable"].empty());
  for (const auto& row : golden["unencodable"]) {
    const auto encoding = tokenizer_->Encode(BytesOf(row), kPlain);
    ASSERT_TRUE(FailsWith(StatusOf(encoding), StatusCode::kInvalidArgument, "byte 0x"));
    const std::string& message = encoding.status().message();
    const std::string named = message.substr(message.find("0x") + 2, 2);
    EXPECT_TRUE(std::ranges::count(row["missing_bytes"], nlohmann::json(named)) == 1)
        << row["name"] << ": " << message;
  }
  EXPECT_TRUE(FailsWith(StatusOf(tokenizer_->Encode("ab\x04")), StatusCode::kInvalidArgument,
                        "at offset 2"));
}

TEST_F(SmolLM2Tokenizer, AddsNoBos) {
  EXPECT_EQ(IdsOf(*tokenizer_, "The capital of France is"), (Ids{504, 3575, 282, 4649, 314}));
}

TEST_F(SmolLM2Tokenizer, StreamsACharacterThatIsSpreadOverTokens) {
  const std::string text = "지똻😊";
  const Ids ids = IdsOf(*tokenizer_, text);
  ASSERT_GT(ids.size(), 3u);
  std::string streamed;
  for (const TokenId id : ids) streamed += tokenizer_->TokenBytes(id);
  EXPECT_EQ(streamed, text);
  // Stopped in mid character: the raw bytes so far.
  EXPECT_EQ(tokenizer_->Decode(std::span(ids).first(1)),
            text.substr(0, tokenizer_->TokenBytes(ids[0]).size()));
}

// Near linear: neither a long word nor long runs of one class may take time with their square. A
// quadratic encoder would exceed the test's time limit by far.
TEST_F(SmolLM2Tokenizer, TakesAMegabyteOfAnything) {
  const auto comes_back = [](std::string_view piece, size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += piece;
    return tokenizer_->Decode(IdsOf(*tokenizer_, text, kParsed)) == text;
  };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kMegabyte = (1 << 20) / 8;  // slow there, and no other code
#else
  constexpr size_t kMegabyte = 1 << 20;
#endif
  for (const std::string_view piece : {"a", "the quick brown fox "})
    EXPECT_TRUE(comes_back(piece, kMegabyte)) << piece;
  for (const std::string_view piece :
       {" ", "ab", "\n", " \n", "7", "!", "é", "😊", "<|im_end|>", "<|im_", "a\x80"})
    EXPECT_TRUE(comes_back(piece, kMegabyte / 8)) << piece;
}

// ---- special tokens, BOS, decoding -------------------------------------------------------------

TEST(Tokenizer, ParsesSpecialTokensOnlyWhenAsked) {
  const Tokenizer tokenizer = GoldenTokenizer("llama3");
  const Ids plain = IdsOf(tokenizer, "a<|end|>", kPlain),
            parsed = IdsOf(tokenizer, "a<|end|>", kParsed);
  EXPECT_GT(plain.size(), 2u);
  ASSERT_EQ(parsed.size(), 2u);
  EXPECT_TRUE(tokenizer.IsSpecial(parsed[1]));
  for (const TokenId id : plain) EXPECT_FALSE(tokenizer.IsSpecial(id));
  EXPECT_EQ(tokenizer.Decode(plain), tokenizer.Decode(parsed));
}

TEST(Tokenizer, TakesTheLongestSpecialToken) {
  const Tokenizer tokenizer = GoldenTokenizer("llama3");
  const Ids longer = IdsOf(tokenizer, "<|end|>x", kParsed);
  ASSERT_EQ(longer.size(), 1u);
  EXPECT_EQ(tokenizer.TokenBytes(longer[0]), "<|end|>x");
}

TEST(Tokenizer, MatchesUserDefinedTokensAlways) {
  const Tokenizer tokenizer = GoldenTokenizer("llama3");
  const Ids ids = IdsOf(tokenizer, "<tool>", kPlain);
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_FALSE(tokenizer.IsSpecial(ids[0]));
}

TEST(Tokenizer, AddsBosByThePostProcessorAndReportsADoubledOne) {
  const Tokenizer tokenizer = GoldenTokenizer("llama3");
  const auto with = tokenizer.Encode("hi"), without = tokenizer.Encode("hi", kPlain);
  ASSERT_OK(with);
  ASSERT_OK(without);
  ASSERT_EQ(with->ids.size(), without->ids.size() + 1);
  EXPECT_EQ(tokenizer.TokenBytes(with->ids[0]), "<|begin_of_text|>");
  EXPECT_FALSE(with->doubled_bos);
  const std::string begun = "<|begin_of_text|>hi";
  const auto doubled = tokenizer.Encode(begun, {.parse_special = true, .add_special = true});
  ASSERT_OK(doubled);
  EXPECT_TRUE(doubled->doubled_bos);
  EXPECT_EQ(doubled->ids[0], doubled->ids[1]);
  const auto once = tokenizer.Encode(begun, kParsed);
  ASSERT_OK(once);
  EXPECT_FALSE(once->doubled_bos);
  EXPECT_EQ(once->ids, with->ids);
}

TEST(Tokenizer, DecodesIdsThatHaveNoTokenToNothing) {
  const Tokenizer tokenizer = GoldenTokenizer("gpt2");
  const TokenId beyond = tokenizer.vocabulary_size();
  EXPECT_EQ(tokenizer.TokenBytes(beyond), "");
  EXPECT_EQ(tokenizer.TokenBytes(-1), "");
  EXPECT_EQ(tokenizer.TokenText(beyond), "[" + std::to_string(beyond) + "]");
  EXPECT_EQ(tokenizer.Decode(Ids{beyond, -5}), "");
}

TEST(Tokenizer, ShowsTokensAsPrintableText) {
  const Tokenizer tokenizer = GoldenTokenizer("gpt2");
  const auto shown = [&](std::string_view text) {
    std::string all;
    for (const TokenId id : IdsOf(tokenizer, text, kPlain)) all += tokenizer.TokenText(id);
    return all;
  };
  EXPECT_EQ(shown(" the\n"), " the\\n");
  EXPECT_EQ(shown("\xff"), "\\xff");
  EXPECT_EQ(shown(std::string_view("\0", 1)), "\\x00");
}

TEST(Tokenizer, TakesAnyBytes) {
  const Tokenizer tokenizer = GoldenTokenizer("llama3");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text :
       {all, all + all, std::string("\xf0\x9f\x98"), std::string("é\xc3 é")})
    EXPECT_EQ(tokenizer.Decode(IdsOf(tokenizer, text, kPlain)), text);
}

// ---- what is refused ---------------------------------------------------------------------------

// gpt2's tokenizer.json with one text replaced.
Status After(std::string_view from, std::string_view to, const std::string& name = "gpt2") {
  std::string text = ReadGoldenModel("tokenizers/" + name + ".tokenizer.json");
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return StatusOf(TokenizerOf(text));
}

TEST(TokenizerJson, RefusesByNameWhatItDoesNotDo) {
  EXPECT_OK(After("\"version\":\"1.0\"", "\"version\":\"1.0\""));
  const auto unsupported = [](std::string_view from, std::string_view to, std::string_view word,
                              const std::string& name = "gpt2") {
    return FailsWith(After(from, to, name), StatusCode::kNotSupported, word);
  };
  EXPECT_TRUE(unsupported(R"("pre_tokenizer":{"type":"ByteLevel")",
                          R"("pre_tokenizer":{"type":"Metaspace")", "Metaspace"));
  EXPECT_TRUE(
      unsupported(R"("add_prefix_space":false)", R"("add_prefix_space":true)", "add_prefix_space"));
  EXPECT_TRUE(unsupported(R"("normalizer":null)", R"("normalizer":{"type":"NFC"})", "NFC"));
  EXPECT_TRUE(unsupported(R"("post_processor":null)",
                          R"("post_processor":{"type":"BertProcessing"})", "BertProcessing"));
  EXPECT_TRUE(unsupported(R"("decoder":{"type":"ByteLevel")", R"("decoder":{"type":"WordPiece")",
                          "WordPiece"));
  EXPECT_TRUE(unsupported(R"("type":"BPE")", R"("type":"Unigram")", "Unigram"));
  EXPECT_TRUE(unsupported(R"("byte_fallback":false)", R"("byte_fallback":true)", "byte_fallback"));
  EXPECT_TRUE(unsupported(R"("lstrip":false)", R"("lstrip":true)", "lstrip"));
  EXPECT_TRUE(unsupported(R"(\\p{N}{1,3})", R"(\\p{N})", "Split", "llama3"));
  EXPECT_TRUE(
      unsupported(R"("behavior":"Isolated")", R"("behavior":"Removed")", "Isolated", "llama3"));
  EXPECT_TRUE(unsupported(R"("individual_digits":true)", R"("individual_digits":false)",
                          "individual_digits", "digits"));
  EXPECT_TRUE(
      unsupported(R"("pre_tokenizer":{)", R"("pre_tokenizer":null,"was":{)", "pre_tokenizer"));
}

TEST(TokenizerJson, RefusesContradictions) {
  const auto corrupt = [](std::string_view from, std::string_view to, std::string_view word,
                          const std::string& name = "gpt2") {
    return FailsWith(After(from, to, name), StatusCode::kCorruption, word);
  };
  EXPECT_TRUE(corrupt(R"("!":1)", R"("!":2)", "both have id 2"));
  EXPECT_TRUE(corrupt(R"("!":1)", R"("!":4000000000)", "4000000000"));
  EXPECT_TRUE(corrupt(R"("!":1)", R"("!":-1)", "-1"));
  EXPECT_TRUE(corrupt(R"("!":1,)", R"("!":1,"!":1,)", "twice"));
  EXPECT_TRUE(corrupt(R"("merges":[)", R"("merges":["zz zzz",)", "merge 0"));
  EXPECT_TRUE(corrupt(R"("merges":[)", R"("merges":["nospace",)", "merge 0"));
  EXPECT_TRUE(corrupt(R"("merges":[)", R"("merges":[7,)", "merge 0"));
  EXPECT_TRUE(corrupt(R"("merges":[)", R"("merge":[)", "merges"));
  EXPECT_TRUE(corrupt(R"("vocab":{)", R"("vocabulary":{)", "vocab"));
  EXPECT_TRUE(corrupt(R"("ids":[)", R"("ids":[70000,)", "70000", "llama3"));
  EXPECT_TRUE(corrupt("{", "[", "JSON"));
}

TEST(TokenizerJson, RefusesAMergeThatIsThereTwice) {
  std::string text = ReadGoldenModel("tokenizers/gpt2.tokenizer.json");
  const size_t begin = text.find("\"merges\":[") + 10, end = text.find("],", begin) + 2;
  text.insert(begin, text.substr(begin, end - begin));
  EXPECT_TRUE(FailsWith(StatusOf(TokenizerOf(text)), StatusCode::kCorruption, "merges 0 and 1"));
}

// Merges are texts "a b" in older files and pairs ["a","b"] in newer ones.
TEST(TokenizerJson, ReadsBothFormsOfMerges) {
  nlohmann::json json = ReadGoldenModelJson("tokenizers/gpt2.tokenizer.json");
  ASSERT_TRUE(json["model"]["merges"][0].is_array());
  for (auto& merge : json["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const auto older = TokenizerOf(json.dump());
  ASSERT_OK(older);
  EXPECT_EQ(older->digest(), GoldenTokenizer("gpt2").digest());
}

}  // namespace
}  // namespace kvbed
