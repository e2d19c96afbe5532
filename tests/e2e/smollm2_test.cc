// The main job on SmolLM2: the documented first run, and prompts of 1,000 tokens and more resumed
// for at least 64 tokens. A pairwise subset runs always, the whole matrix with the label `full`.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/command.h"
#include "tests/support/require.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

const std::string kModel = KVBED_SMOLLM2_GGUF;

const char* const kText =
    "A block is the keys and values of consecutive tokens. It is written once, read many times, "
    "and "
    "must come back as it was: one wrong bit in a cache is a wrong word in an answer, and nobody "
    "will see where it came from. ";

struct SmolCase {
  std::string block_tokens;
  std::string place;  // "prefill", "middle" or "boundary" of a block
  std::string dtype;
  std::string where;  // "same", "fresh" or "memory"
};

std::string SmolName(const SmolCase& c) {
  return "Block" + c.block_tokens + "_" + c.place + "_" + c.dtype + "_" + c.where;
}
std::string SmolNameOf(const testing::TestParamInfo<SmolCase>& info) {
  return SmolName(info.param);
}
std::ostream& operator<<(std::ostream& out, const SmolCase& c) { return out << SmolName(c); }

void RestoreBitForBit(const SmolCase& c) {
  if (kModel.empty()) KVBED_SKIP_OR_FAIL("SmolLM2 is not there: tools/setup fetches it");
  const TempDir folder;
  const uint64_t block = std::stoull(c.block_tokens);
  const uint64_t prompt = 1003;
  // Decode calls until the cached tokens end on a block's boundary, or in the middle of one.
  const uint64_t to_boundary = (block - prompt % block) % block;
  const uint64_t calls = c.place == "prefill" ? 0
                         : c.place == "boundary"
                             ? to_boundary
                             : to_boundary + std::min<uint64_t>(block / 2 + 1, 8);
  const uint64_t new_tokens = calls + 64 + 1;
  std::vector<std::string> arguments{"run",
                                     "-m",
                                     kModel,
                                     "--prompt",
                                     kText,
                                     "-c",
                                     std::to_string(prompt),
                                     "-n",
                                     std::to_string(new_tokens),
                                     "--snapshot-at",
                                     std::to_string(calls),
                                     "--block-tokens",
                                     c.block_tokens,
                                     "--dtype",
                                     c.dtype,
                                     "--no-drift",
                                     "--threads",
                                     "1",
                                     "-o",
                                     "json",
                                     "--store",
                                     c.where == "memory" ? "memory:" : "slab:" + (folder / "kv")};
  if (c.where == "fresh") arguments.push_back("--fresh-process");
  const CommandRun run = RunKvbed(arguments);
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto json = run.Json();
  const auto& verdict = json.at("verdict");
  for (const char* part : {"control", "bytes", "logits", "tokens"}) {
    EXPECT_EQ(verdict.at(part).at("status"), "equal") << part;
  }
  EXPECT_EQ(verdict.at("bytes").at("differing_bits"), 0);
  EXPECT_EQ(verdict.at("logits").at("steps"), 64);
  EXPECT_EQ(json.at("restore").at("prefill_tokens_after_restore"), 0);
  EXPECT_EQ(json.at("store").at("direct").get<bool>(), c.where != "memory");
}

class Smol : public testing::TestWithParam<SmolCase> {};
TEST_P(Smol, RestoresBitForBit) { RestoreBitForBit(GetParam()); }

// Every pair of values of two factors but block size with all of the others: three cases a size.
std::vector<SmolCase> Pairs() {
  const std::vector<std::string> dtypes{"bf16", "fp32"}, wheres{"same", "fresh", "memory"},
      places{"prefill", "middle", "boundary"};
  std::vector<SmolCase> cases;
  size_t i = 0;
  for (const char* block : {"1", "4", "5", "7", "16", "32", "64", "256"}) {
    for (size_t k = 0; k < 3; ++k) {
      // A block of one token has no middle, which makes it a boundary again.
      cases.push_back({block, places[k], dtypes[(i + k) % 2], wheres[(i + k) % 3]});
    }
    ++i;
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Pairs, Smol, testing::ValuesIn(Pairs()), SmolNameOf);

std::vector<SmolCase> Matrix() {
  std::vector<SmolCase> cases;
  for (const char* block : {"1", "4", "5", "7", "16", "32", "64", "256"}) {
    for (const char* place : {"prefill", "middle", "boundary"}) {
      for (const char* dtype : {"bf16", "fp32"}) {
        for (const char* where : {"same", "fresh", "memory"}) {
          cases.push_back({block, place, dtype, where});
        }
      }
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(FullMatrix, Smol, testing::ValuesIn(Matrix()), SmolNameOf);

// Every other kind of store, with a prompt as long as its records need.
class SmolStores : public testing::TestWithParam<const char*> {};

TEST_P(SmolStores, RestoreBitForBitInTheSameAndInAFreshProcess) {
  if (kModel.empty()) KVBED_SKIP_OR_FAIL("SmolLM2 is not there: tools/setup fetches it");
  const TempDir folder;
  std::string spec = GetParam();
  spec.replace(spec.find("{}"), 2, folder / "store");
  for (const bool fresh : {false, true}) {
    std::vector<std::string> arguments{"run", "-m", kModel, "--prompt",  kText,
                                       "-c",  "67", "-n",   "9",         "--store",
                                       spec,  "-o", "json", "--no-drift"};
    if (fresh) arguments.insert(arguments.end(), {"--fresh-process", "--replace"});
    const CommandRun run = RunKvbed(arguments);
    ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
    const auto verdict = run.Json().at("verdict");
    for (const char* part : {"control", "bytes", "logits", "tokens"}) {
      EXPECT_EQ(verdict.at(part).at("status"), "equal") << part;
    }
    EXPECT_EQ(verdict.at("bytes").at("differing_bits"), 0);
  }
}

const char* const kStoreSpecs[] = {
    "files:{}",
    "files:{}?direct=off&sync=none",
#ifdef KVBED_HAS_ROCKSDB
    "rocksdb:{}",
    "rocksdb:{}?wal=on",
    "rocksdb:{}?layout=index",
    "rocksdb:{}?fs=posix&crc=stock",
#endif
};
INSTANTIATE_TEST_SUITE_P(Kinds, SmolStores, testing::ValuesIn(kStoreSpecs));

TEST(SmolFirstRun, GivesTheDocumentedNumbers) {
  if (kModel.empty()) KVBED_SKIP_OR_FAIL("SmolLM2 is not there: tools/setup fetches it");
  const CommandRun run = RunKvbed(
      {"run", "-m", kModel, "--prompt", "The capital of France is", "-n", "11", "-o", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto json = run.Json();
  EXPECT_EQ(json.at("prompt").at("ids"), nlohmann::json({504, 3575, 282, 4649, 314}));
  ASSERT_EQ(json.at("kv_progression").size(), 11);
  EXPECT_EQ(json.at("kv_progression").back(), nlohmann::json({14, 15, "decode"}));
  EXPECT_EQ(json.at("model").at("kv_bytes_per_token"), 23040);
  EXPECT_EQ(json.at("model").at("kv_bytes_per_token_formula"), 23040);
  EXPECT_EQ(json.at("generated").at("ids").size(), 11);
}

// A snapshot is of token ids, also of such that its text would not give.
TEST(SmolTokens, ThatTheTextWouldNotGiveAreKeptAsTheyAre) {
  if (kModel.empty()) KVBED_SKIP_OR_FAIL("SmolLM2 is not there: tools/setup fetches it");
  const TempDir folder;
  const auto ids_of = [](const std::string& text) {
    return RunKvbed({"tokenize", "-m", kModel, "--prompt", text, "-o", "json"}).Json().at("ids");
  };
  nlohmann::json ids = nlohmann::json::array();
  std::string list;
  for (const char* piece : {"c", "a", "p", "i", "t", "a", "l", ".", " ", "\n", "\n"}) {
    for (const auto& id : ids_of(piece)) {
      ids.push_back(id);
      list += (list.empty() ? "" : ",") + id.dump();
    }
  }
  ASSERT_NE(ids_of("capital. \n\n"), ids);  // else this shows nothing
  const std::string store = "slab:" + (folder / "kv");
  const CommandRun run = RunKvbed({"snapshot", "-m", kModel, "--prompt-ids", list, "-n", "1",
                                   "--store", store, "--name", "s", "-o", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  auto kept = RunKvbed({"store", "info", store + "#s", "-o", "json"})
                  .Json()
                  .at("snapshots")
                  .at(0)
                  .at("token_ids");
  ASSERT_GE(kept.size(), ids.size());
  kept.erase(kept.begin() + static_cast<ptrdiff_t>(ids.size()), kept.end());
  EXPECT_EQ(kept, ids);
  EXPECT_EQ(RunKvbed({"resume", "-m", kModel, "--store", store + "#s", "-n", "4"}).exit_code, 0);
}

TEST(SmolTokenize, GivesIdsAndBytes) {
  if (kModel.empty()) KVBED_SKIP_OR_FAIL("SmolLM2 is not there: tools/setup fetches it");
  const CommandRun run =
      RunKvbed({"tokenize", "-m", kModel, "--prompt", "The capital of France is", "-o", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.Json().at("ids"), nlohmann::json({504, 3575, 282, 4649, 314}));
  EXPECT_EQ(run.Json().at("tokens").at(1).at("bytes_hex"), "206361706974616c");
}

}  // namespace
}  // namespace kvbed
