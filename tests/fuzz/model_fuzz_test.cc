// Damaged model files give a Status or a model whose every value can be read, and never anything
// worse; the sanitizer builds watch. Each round has a seed of its own, named when it fails.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "engine/model/fingerprint.h"
#include "engine/model/gguf_file.h"
#include "engine/model/gguf_model.h"
#include "engine/model/gguf_tokenizer.h"
#include "engine/model/hf_config.h"
#include "engine/model/llama_tensors.h"
#include "engine/model/safetensors_file.h"
#include "engine/model/tokenizer.h"
#include "engine/model/tokenizer_json.h"
#include "engine/model/toy_model.h"
#include "tests/engine/golden_model.h"
#include "tests/engine/tiny_gguf.h"

namespace kvbed {
namespace {

using Random = std::mt19937_64;

size_t Below(Random& random, size_t limit) { return limit == 0 ? 0 : random() % limit; }

// Numbers that parsers stumble over.
uint64_t AwkwardNumber(Random& random) {
  constexpr uint64_t kNumbers[] = {0,          1,          3,          7,          31,
                                   32,         255,        0x7fffffff, 0x80000000, 0xffffffff,
                                   1ull << 20, 1ull << 31, 1ull << 40, 1ull << 60, 1ull << 63,
                                   ~0ull,      ~0ull - 7,  0x3f800000, 0x7fc00000, 0x7f800000};
  return kNumbers[Below(random, std::size(kNumbers))];
}

void DamageOnce(Random& random, std::string& bytes) {
  if (bytes.empty()) bytes.push_back('x');
  const size_t at = Below(random, bytes.size());
  switch (random() % 7) {
    case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
    case 1: bytes[at] = static_cast<char>(random()); break;
    case 2: {
      const std::string number = LittleEndian(AwkwardNumber(random));
      const size_t width = size_t{1} << random() % 4;
      bytes.replace(at, width, number.substr(0, width));
      break;
    }
    case 3: bytes.erase(at, 1 + Below(random, 16)); break;
    case 4:
      bytes.insert(at, std::string(1 + Below(random, 16), static_cast<char>(random())));
      break;
    case 5: bytes.insert(at, bytes.substr(Below(random, bytes.size()), Below(random, 64))); break;
    default: bytes.resize(at); break;
  }
}

// Text formats break at once from random bytes; these keep most of the grammar.
void DamageJson(Random& random, std::string& text) {
  constexpr std::string_view kPieces[] = {
      "0",        "-1",    "1e999", "4294967296",  "18446744073709551615",
      "null",     "true",  "\"\"",  "[]",          "{}",
      "[[[[[[[[", "\"x\"", "1.5",   "\"\\ud800\"", "\"\\u0000\"",
      ","};
  const size_t at = Below(random, text.size());
  // Replaces what lies between two of these characters.
  const size_t begin = text.find_first_of(":,[{", at);
  const size_t end = begin == std::string::npos ? begin : text.find_first_of(",]}", begin + 1);
  if (random() % 4 == 0 || end == std::string::npos) return DamageOnce(random, text);
  text.replace(begin + 1, end - begin - 1, kPieces[Below(random, std::size(kPieces))]);
}

// Runs `check` on `rounds` damaged copies; `check` says whether the input was accepted.
template <class Damage, class Check>
void Fuzz(const std::vector<std::string>& originals, uint64_t rounds, Damage damage, Check check) {
  for (const std::string& original : originals)
    ASSERT_TRUE(check(original)) << "the undamaged input must be accepted";
  uint64_t accepted = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("seed " + std::to_string(round));
    Random random(round);
    std::string bytes = originals[Below(random, originals.size())];
    for (size_t i = 0, count = 1 + Below(random, 3); i < count; ++i) damage(random, bytes);
    accepted += check(bytes);
  }
  EXPECT_LT(accepted, rounds) << "no damage was noticed";
}

// Every value of every tensor, and a text through the tokenizer.
void UseTensors(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    std::vector<float> values(tensor.elements());
    tensor.ReadRows(0, tensor.rows(), values);
    std::vector<uint16_t> rounded(tensor.elements());
    tensor.ReadRowsBf16(0, tensor.rows(), rounded);
  }
}

bool UseTokenizer(Result<TokenizerDefinition> definition) {
  if (!definition.ok()) return false;
  const auto tokenizer = Tokenizer::Create(std::move(definition).value());
  if (!tokenizer.ok()) return false;
  const std::string text = "The <|im_end|> 123  \xff\n\n it's\xe2\x82 é";
  for (const bool parse_special : {false, true}) {
    const auto encoding = tokenizer->Encode(text, {.parse_special = parse_special});
    if (!encoding.ok()) continue;
    EXPECT_FALSE(encoding->ids.empty());
    for (const TokenId id : encoding->ids) (void)tokenizer->TokenText(id);
  }
  return true;
}

bool AcceptsGguf(const std::string& bytes) {
  const auto file = GgufFile::Parse(AsBytes(bytes));
  if (!file.ok()) return false;
  const auto config = ReadGgufConfig(*file);
  if (!config.ok()) return false;
  (void)RopeInverseFrequencies(*config);
  (void)DigestConfig(*config);
  const auto tensors = ReadGgufTensors(*file, *config);
  if (!tensors.ok() || !CheckLlamaTensors(*config, *tensors).ok()) return false;
  UseTensors(*tensors);
  auto definition = ReadGgufTokenizer(*file, config->vocab);
  if (!definition.ok()) return false;
  return !definition->has_value() || UseTokenizer(**std::move(definition));
}

bool AcceptsSafetensors(const std::string& bytes) {
  const auto tensors = ParseSafetensors(AsBytes(bytes));
  if (!tensors.ok()) return false;
  size_t total = 0;
  for (const SafetensorsTensor& tensor : *tensors)
    for (const std::byte byte : tensor.data) total += std::to_integer<size_t>(byte);
  return total + 1 > 0;
}

bool AcceptsConfig(const std::string& text) {
  const auto config = ParseHfConfig(text);
  (void)ParseGenerationEosIds(text);
  if (config.ok()) (void)RopeInverseFrequencies(*config);
  return config.ok();
}

bool AcceptsTokenizerJson(const std::string& text) {
  return UseTokenizer(ParseTokenizerJson(text));
}

void FuzzAll(uint64_t rounds) {
  Fuzz({ReadGoldenModel("malformed/valid.gguf"), TinyGguf().File()}, rounds, DamageOnce,
       AcceptsGguf);
  Fuzz({ReadGoldenModel("malformed/valid_dir/model.safetensors")}, rounds, DamageOnce,
       AcceptsSafetensors);
  Fuzz(
      {SafetensorsOf(R"({"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                     R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})",
                     "123456789")},
      rounds,
      [](Random& random, std::string& bytes) {
        std::string header = bytes.substr(8, bytes.size() - 17);
        DamageJson(random, header);
        bytes = SafetensorsOf(header, "123456789");
      },
      AcceptsSafetensors);
  Fuzz({ReadGoldenModel("gqa_8_2/config.json"), ReadGoldenModel("mha_llama3_rope/config.json")},
       rounds, DamageJson, AcceptsConfig);
  Fuzz({ReadGoldenModel("malformed/valid_dir/tokenizer.json"),
        ReadGoldenModel("tokenizers/llama3.tokenizer.json"),
        ReadGoldenModel("tokenizers/digits.tokenizer.json")},
       rounds / 4, DamageJson, AcceptsTokenizerJson);
  Fuzz({"toy:8m?layers=1&vocab=9&hidden=12&mlp=3", "toy:62m?kv_heads=3&layers=1"}, rounds,
       DamageOnce, [](const std::string& spec) { return IsToySpec(spec) && MakeToy(spec).ok(); });
}

TEST(ModelFuzz, DamagedFilesGiveAStatus) { FuzzAll(3000); }
TEST(FullModelFuzz, DamagedFilesGiveAStatus) { FuzzAll(100000); }

}  // namespace
}  // namespace kvbed
