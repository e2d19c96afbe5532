// Damaged input of every parser gives a Status or a value that can be used, in little memory, and
// never anything worse; the sanitizer builds watch. Files whose names begin with "valid" must be
// taken as they are, all others refused. Each round has a seed of its own, named when it fails.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/model_writers.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/support/counted_allocations.h"

namespace kvbed {
namespace {

using Random = std::mt19937_64;

// Far below what a command may take for a hostile file.
constexpr uint64_t kAllowedBytes = 64 << 20;

size_t Below(Random& random, size_t limit) { return limit == 0 ? 0 : random() % limit; }

// Numbers that parsers stumble over.
uint64_t AwkwardNumber(Random& random) {
  constexpr uint64_t kNumbers[] = {0,          1,          3,          7,          31,
                                   32,         255,        0x7fffffff, 0x80000000, 0xffffffff,
                                   1ull << 20, 1ull << 31, 1ull << 40, 1ull << 60, 1ull << 63,
                                   ~0ull,      ~0ull - 7,  0x3f800000, 0x7fc00000, 0x7f800000};
  return kNumbers[Below(random, std::size(kNumbers))];
}

void DamageBytes(Random& random, std::string& bytes) {
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

// Lines of text break at once from random bytes; these keep most of a grammar.
void DamageText(Random& random, std::string& text) {
  constexpr std::string_view kPieces[] = {"..",
                                          "/",
                                          "//",
                                          "/../../etc/passwd",
                                          ".",
                                          "%00",
                                          "%2e%2e%2f",
                                          "%",
                                          "%2",
                                          "?",
                                          "&",
                                          "#",
                                          "=",
                                          ":",
                                          ",",
                                          "-",
                                          "+",
                                          "*",
                                          "0",
                                          "-1",
                                          "18446744073709551616",
                                          "1e9",
                                          "nan",
                                          "inf",
                                          "9223372036854775807",
                                          " ",
                                          "\n",
                                          "\xff",
                                          "k",
                                          "TiB",
                                          "capacity=",
                                          "slab:",
                                          "files:",
                                          "\\"};
  if (random() % 3 == 0) return DamageBytes(random, text);
  const size_t at = Below(random, text.size() + 1);
  std::string piece(kPieces[Below(random, std::size(kPieces))]);
  if (random() % 16 == 0) piece = std::string(1, '\0');
  text.replace(at, Below(random, 4), piece);
}

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
  if (random() % 4 == 0 || end == std::string::npos) return DamageBytes(random, text);
  text.replace(begin + 1, end - begin - 1, kPieces[Below(random, std::size(kPieces))]);
}

// The JSON header of a safetensors file, with a length that fits.
void DamageSafetensors(Random& random, std::string& bytes) {
  const bool has_header = bytes.size() > 8;
  const uint64_t length = has_header ? LoadLe<uint64_t>(AsBytes(bytes), 0) : 0;
  if (random() % 2 == 0 || !has_header || length > bytes.size() - 8) {
    return DamageBytes(random, bytes);
  }
  std::string header = bytes.substr(8, length);
  const std::string data = bytes.substr(8 + length);
  DamageJson(random, header);
  bytes = SafetensorsOf(header, data);
}

struct Parser {
  const char* name;  // and of its folder of inputs
  FuzzTarget* target;
  void (*damage)(Random&, std::string&);
  uint64_t rounds;
};

constexpr Parser kParsers[] = {
    {"byte_size", FuzzByteSize, DamageText, 5000},
    {"gguf", FuzzGguf, DamageBytes, 3000},
    {"hf_config", FuzzHfConfig, DamageJson, 3000},
    {"ledger", FuzzLedger, DamageJson, 1000},
    {"manifest", FuzzManifest, DamageBytes, 5000},
    {"protocol_answer", FuzzProtocolAnswer, DamageJson, 5000},
    {"record", FuzzRecord, DamageBytes, 300},
    {"record_path", FuzzRecordPath, DamageText, 5000},
    {"report_rows", FuzzReportRows, DamageJson, 1000},
    {"safetensors", FuzzSafetensors, DamageSafetensors, 3000},
    {"snapshot_name", FuzzSnapshotName, DamageText, 5000},
    {"store_identity", FuzzStoreIdentity, DamageBytes, 3000},
    {"store_spec", FuzzStoreSpec, DamageText, 5000},
    {"tokenizer_json", FuzzTokenizerJson, DamageJson, 600},
    {"toy_spec", FuzzToySpec, DamageText, 3000},
};

std::map<std::string, std::string> Inputs(const Parser& parser) {
  const std::string folder = std::string(KVBED_SOURCE_DIR "/tests/fuzz/corpus/") + parser.name;
  std::map<std::string, std::string> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    inputs[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return inputs;
}

// Which input was at work when the process ended, as gtest's traces go with it.
const char* g_parser = "";
uint64_t g_seed = 0;

void TellSeed() {
  char line[128];
  const int size = std::snprintf(line, sizeof(line), "parser %s, seed %llu\n", g_parser,
                                 static_cast<unsigned long long>(g_seed));
  if (::write(STDERR_FILENO, line, static_cast<size_t>(size)) != size) return;
}

extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));

void TellSeedAtTheEnd() {
  std::signal(SIGABRT, [](int) { TellSeed(); });
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(TellSeed);
}

// Whether the input was accepted.
bool IsAccepted(const Parser& parser, const std::string& input) {
  bool accepted = false;
  const uint64_t peak = PeakBytesOf([&] { accepted = parser.target(AsBytes(input)); });
  EXPECT_LE(peak, kAllowedBytes);
  return accepted;
}

void RunSeeds(const Parser& parser, uint64_t rounds) {
  std::vector<std::string> originals;
  for (const auto& [name, bytes] : Inputs(parser)) originals.push_back(bytes);
  ASSERT_FALSE(originals.empty());
  TellSeedAtTheEnd();
  g_parser = parser.name;
  uint64_t accepted = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("seed " + std::to_string(round));
    g_seed = round;
    Random random(round);
    std::string bytes = originals[Below(random, originals.size())];
    for (size_t i = 0, count = 1 + Below(random, 3); i < count; ++i) parser.damage(random, bytes);
    accepted += IsAccepted(parser, bytes);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_LT(accepted, rounds) << "no damage was noticed";
}

class ParserFuzz : public testing::TestWithParam<Parser> {};
class FullParserFuzz : public testing::TestWithParam<Parser> {};

TEST_P(ParserFuzz, InputsAreTakenOrRefusedAsTheyAreNamed) {
  int valid = 0;
  for (const auto& [name, bytes] : Inputs(GetParam())) {
    EXPECT_EQ(IsAccepted(GetParam(), bytes), name.starts_with("valid")) << name;
    valid += name.starts_with("valid");
  }
  EXPECT_GT(valid, 0);
}

TEST_P(ParserFuzz, DamagedInputGivesAStatusInLittleMemory) {
  RunSeeds(GetParam(), GetParam().rounds);
}
TEST_P(FullParserFuzz, DamagedInputGivesAStatusInLittleMemory) {
  RunSeeds(GetParam(), 40 * GetParam().rounds);
}

constexpr auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(All, ParserFuzz, testing::ValuesIn(kParsers), kName);
INSTANTIATE_TEST_SUITE_P(All, FullParserFuzz, testing::ValuesIn(kParsers), kName);

// Random bytes, of which hardly any begin as they must.
TEST(ParserFuzzNoise, IsRefusedByTheFileFormats) {
  for (const Parser& parser : kParsers) {
    if (parser.damage == DamageText) continue;
    Random random(1);
    for (int round = 0; round < 200; ++round) {
      std::string bytes(Below(random, 600), '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      EXPECT_FALSE(IsAccepted(parser, bytes)) << parser.name << " round " << round;
    }
  }
}

TEST(ParserFuzzMemory, TheCounterCounts) {
  EXPECT_GT(PeakBytesOf([] { const std::vector<char> memory(2 * kAllowedBytes); }), kAllowedBytes);
}

}  // namespace
}  // namespace kvbed
