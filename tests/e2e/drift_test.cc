// `kvbed drift` as a user runs it, on small models: what the arms are and say, that the figures are
// those of `kvbed run`, the limit, and what is refused before weights are read. The native kernels
// have no drift; what rounding looks like is tested where torch is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/json_names.h"
#include "tests/support/temp_dir.h"
#include "tools/exit_code.h"

namespace kvbed {
namespace {

using Json = nlohmann::json;

const std::string kGolden = KVBED_GOLDEN_DIR "/model/gqa_8_2";

std::vector<std::string> Arguments(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"drift", "-m", "toy:8m?kv_heads=2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Json Drift(std::vector<std::string> more, int exit_code = kExitOk) {
  more.insert(more.end(), {"-o", "json"});
  const CommandRun run = RunKvbed(Arguments(more));
  EXPECT_EQ(run.exit_code, exit_code) << run.err;
  return run.Json();
}

TEST(Drift, NamesTheFirstOperationThatDiffersWhenAskedTo) {
  const Json unasked = Drift({"-c", "24", "-n", "5"});
  EXPECT_EQ(unasked["arms"][0]["operations"], nullptr);
  const Json json = Drift({"-c", "40", "-n", "5", "--first-op"});
  for (const Json& arm : json["arms"]) {
    EXPECT_TRUE(NullsHaveReasons(arm));
    const Json& operations = arm["operations"];
    EXPECT_EQ(operations["compared"], 1 + 4 * 11 + 2);
    const bool same = arm["identical"] == arm["elements"];
    if (arm["kernels"] == "native") EXPECT_TRUE(same);
    if (same) continue;
    const Json& first = operations["first"];
    ASSERT_TRUE(first.is_object()) << arm;
    EXPECT_LE(first["layer"], arm["first_layer"]) << first;
    EXPECT_GT(first["recomputed_rows"], 0);
    EXPECT_GT(first["differing_positions"], 0);
  }
  const CommandRun text = RunKvbed(Arguments({"-c", "40", "-n", "5", "--first-op"}));
  EXPECT_NE(text.out.find("First op"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("base: "), std::string::npos) << text.out;
}

TEST(Drift, HasAnArmForEachFactorsOtherValues) {
  const Json json = Drift({"-c", "24,40,32", "-n", "5", "--prefill-chunk", "512,1,16", "--threads",
                           "1,2", "--block-tokens", "5", "--kernels", "native"});
  EXPECT_EQ(json["schema"], "kvbed-drift/1");
  EXPECT_EQ(json["status"], "ok");
  EXPECT_TRUE(HasNames(json, {"kvbed_version", "argv", "seed", "started_at", "env", "model",
                              "reasons", "numeric_environment", "base", "begins"}));
  EXPECT_EQ(json["env"]["model_fingerprint"], json["model"]["fingerprint"]);
  std::vector<std::string> arms;
  for (const Json& arm : json["arms"]) {
    arms.push_back(arm["factor"].get<std::string>() + " " + arm["value"].dump());
    EXPECT_TRUE(HasNames(arm, {"identical_pct", "max_abs", "max_abs_decode", "max_ulp", "k_abs_max",
                               "first_layer", "flips", "tokens_match", "kernels"}));
    EXPECT_TRUE(NullsHaveReasons(arm));
    EXPECT_EQ(arm["layers"].size(), 4u);
    EXPECT_EQ(arm["positions_compared"], 5);
    EXPECT_EQ(arm["cached_tokens"], arm["ctx_tokens"].get<int>() + 4);
    const uint64_t row = 4 * 2 * 2 * 64;  // layers, K and V, KV heads, head_dim
    EXPECT_EQ(arm["elements"], arm["cached_tokens"].get<uint64_t>() * row);
    EXPECT_EQ(arm["decode_positions"]["elements"], 4 * row);
    EXPECT_GT(arm["k_abs_max"], 0);
  }
  EXPECT_EQ(arms, (std::vector<std::string>{"base null", "ctx_tokens 24", "ctx_tokens 32",
                                            "prefill_chunk 1", "prefill_chunk 16", "threads 2"}));
  EXPECT_EQ(json["arms"][0]["ctx_tokens"], 40);
  EXPECT_EQ(json["arms"][3]["prefill_chunk"], 1);
  EXPECT_EQ(json["arms"][3]["threads"], 1);
  EXPECT_EQ(json["arms"][5]["threads"], 2);
  EXPECT_EQ(json["arms"][5]["prefill_chunk"], 512);
  for (size_t i : {3, 4, 5}) {
    EXPECT_EQ(json["arms"][i]["decoded_ids"], json["arms"][0]["decoded_ids"]) << "the same tokens";
    EXPECT_EQ(json["arms"][i]["against_base"]["elements"], json["arms"][0]["elements"]);
  }
}

TEST(Drift, OfTheNativeKernelsIsNoneWhateverTheChunksAndThreads) {
  for (const char* dtype : {"bf16", "fp32"}) {
    const Json json =
        Drift({"-c", "33,64", "-n", "6", "--dtype", dtype, "--threads", "1,2", "--prefill-chunk",
               "512,1,7", "--kernels", "native", "--fail-above", "0"});
    EXPECT_EQ(json["status"], "ok");
    EXPECT_EQ(json["arms"].size(), 5u);
    for (const Json& arm : json["arms"]) {
      EXPECT_EQ(arm["kernels"], "native");
      EXPECT_EQ(arm["identical"], arm["elements"]) << arm["factor"] << arm["value"];
      EXPECT_EQ(arm["tokens_match"], true);
      if (!arm["against_base"].is_null()) {
        EXPECT_EQ(arm["against_base"]["identical"], arm["elements"]);
      }
    }
  }
  const CommandRun text = RunKvbed(Arguments({"-c", "20", "-n", "3", "--kernels", "native"}));
  EXPECT_NE(text.out.find("The two are the same bits."), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("What differs is rounding"), std::string::npos) << text.out;
}

#ifdef KVBED_HAS_TORCH

TEST(Drift, ShowsBothSetsOfKernelsUnlessAskedForOneOrForALimit) {
  const Json both = Drift({"-c", "40", "-n", "9"});
  ASSERT_EQ(both["arms"].size(), 2u);
  EXPECT_EQ(both["base"]["kernels"], "native");
  EXPECT_EQ(both["arms"][0]["identical"], both["arms"][0]["elements"]);
  const Json& torch = both["arms"][1];
  EXPECT_EQ(torch["factor"], "kernels");
  EXPECT_EQ(torch["value"], "torch");
  EXPECT_EQ(torch["numeric_environment"]["kernel_set"], "torch");
  // What an ordinary engine rounds; some versions on some CPUs round a toy of this size alike.
  const bool differs = torch["identical"] != torch["elements"];
  EXPECT_EQ(torch["decoded_ids"], both["arms"][0]["decoded_ids"]) << "the same tokens";
  EXPECT_LT(torch["against_base"]["identical"], torch["elements"]);

  const Json turned = Drift({"-c", "40", "-n", "9", "--kernels", "torch,native"});
  ASSERT_EQ(turned["arms"].size(), 2u);
  EXPECT_EQ(turned["arms"][0]["kernels"], "torch");
  EXPECT_EQ(turned["arms"][1]["value"], "native");
  EXPECT_EQ(turned["arms"][1]["identical"], turned["arms"][1]["elements"]);

  EXPECT_EQ(Drift({"-c", "40", "-n", "9", "--kernels", "torch"})["arms"].size(), 1u);
  EXPECT_EQ(Drift({"-c", "40", "-n", "9", "--fail-above", "0"})["arms"].size(), 1u)
      << "a limit is for what was asked for";
  Drift({"-c", "40", "-n", "9", "--fail-above", "0", "--kernels", "native,torch"},
        differs ? kExitFailedCheck : kExitOk);
}

TEST(Drift, AnInstructionSetIsOfTheNativeArms) {
  const Json json = Drift({"-c", "20", "-n", "3", "--isa", "portable"});
  EXPECT_EQ(json["arms"][0]["numeric_environment"]["isa"], "portable");
  ASSERT_EQ(json["arms"].size(), 2u);
  const CommandRun alone = RunKvbed(Arguments({"--isa", "portable", "--kernels", "torch"}));
  EXPECT_EQ(alone.exit_code, kExitUsage);
  EXPECT_NE(alone.err.find("--isa portable is of the native kernels"), std::string::npos)
      << alone.err;
}

// A prefill in one call is computed as the recompute is: nothing may differ. A second chunk of one
// row is not: a product of one row sums in another order.
TEST(Drift, OfAPrefillAloneIsNoneInOneCallAndBeginsWithTheSecondChunk) {
  const auto with_chunk = [](const char* chunk) {
    return std::vector<std::string>{
        "-c",        "48,64,65", "-n",           "1", "--dtype",         "fp32",
        "--threads", "1",        "--fail-above", "0", "--prefill-chunk", chunk,
        "--kernels", "torch"};
  };
  const Json whole = Drift(with_chunk("65"));
  for (const Json& arm : whole["arms"]) {
    EXPECT_EQ(arm["identical"], arm["elements"]) << arm["ctx_tokens"];
    EXPECT_EQ(arm["max_abs"], 0);
    EXPECT_EQ(arm["first_layer"], nullptr);
    EXPECT_EQ(arm["first_position"], nullptr);
    EXPECT_EQ(arm["tokens_match"], true);
    EXPECT_EQ(arm["exceeds_limit"], false);
  }
  EXPECT_EQ(whole["begins"]["ctx_tokens"], nullptr);
  EXPECT_EQ(whole["begins"]["contexts"], 3);

  // Whether a row alone comes out otherwise is the BLAS' to say: what is told must be of one piece.
  std::vector<std::string> arguments = Arguments(with_chunk("64"));
  arguments.insert(arguments.end(), {"-o", "json"});
  const CommandRun run = RunKvbed(arguments);
  const Json chunked = run.Json();
  const Json& longest = chunked["arms"][0];
  if (longest["identical"] == longest["elements"]) {
    EXPECT_EQ(run.exit_code, kExitOk);
    EXPECT_EQ(chunked["status"], "ok");
    EXPECT_EQ(chunked["begins"]["ctx_tokens"], nullptr);
    return;
  }
  EXPECT_EQ(run.exit_code, kExitFailedCheck);
  EXPECT_EQ(chunked["status"], "failed");
  EXPECT_EQ(chunked["reasons"].size(), 1u);
  EXPECT_EQ(chunked["begins"]["ctx_tokens"], 65);
  EXPECT_EQ(chunked["begins"]["position"], 64) << "counted from 0";
  EXPECT_EQ(chunked["begins"]["prompt_ctx_tokens"], 65);
  EXPECT_EQ(chunked["begins"]["decode_ctx_tokens"], nullptr);
  EXPECT_EQ(chunked["begins"]["differing_contexts"], 1);
  for (const Json& arm : chunked["arms"]) {
    const bool two_chunks = arm["ctx_tokens"] == 65;
    EXPECT_EQ(arm["identical"] != arm["elements"], two_chunks) << arm["ctx_tokens"];
    EXPECT_EQ(arm["exceeds_limit"], two_chunks);
  }
}

#endif  // KVBED_HAS_TORCH

TEST(Drift, GivesTheSameFiguresAsTheMainJob) {
  const std::vector<std::string> same = {
      "-m", kGolden, "--prompt-ids", "5,70,31,300,12", "-n", "9", "--threads", "1", "-o", "json"};
  std::vector<std::string> drift = {"drift"}, run = {"run"};
  drift.insert(drift.end(), same.begin(), same.end());
  run.insert(run.end(), same.begin(), same.end());
  const Json arms = RunKvbed(drift).Json()["arms"];
  const Json& base = arms[0];
  const Json report = RunKvbed(run).Json();
  for (const auto& [name, value] : report["drift"].items()) EXPECT_EQ(base[name], value) << name;
  ASSERT_EQ(report["drift_arms"].size(), arms.size() - 1);
  for (size_t i = 1; i < arms.size(); ++i) {
    for (const auto& [name, value] : report["drift_arms"][i - 1].items()) {
      if (name != "timings") EXPECT_EQ(arms[i][name], value) << name;
    }
  }
  Json ids = report["generated"]["ids"];
  ids.erase(ids.size() - 1);  // picked, not run
  EXPECT_EQ(base["decoded_ids"], ids);
}

TEST(Drift, TakesAPromptsTextAndItsFile) {
  const TempDir dir;
  std::ofstream(dir / "book.txt") << "the rain in the plain";
  const CommandRun run = RunKvbed({"drift", "-m", kGolden, "--prompt-file", dir / "book.txt", "-c",
                                   "8,12", "-n", "3", "--json", dir / "out.json"});
  EXPECT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_NE(run.out.find("Begins"), std::string::npos) << run.out;
  EXPECT_EQ(run.err, "");
  std::ifstream in(dir / "out.json");
  const Json json = Json::parse(in);
  EXPECT_EQ(json["prompt"]["text"], "the rain in the plain");
  EXPECT_EQ(json["prompt"]["tokens"], 12);
}

TEST(Drift, PrintsTheTableAsMarkdownAndCsv) {
  const CommandRun markdown =
      RunKvbed(Arguments({"-c", "20", "-n", "3", "--prefill-chunk", "8,512", "-o", "md"}));
  EXPECT_NE(markdown.out.find("| prefill chunk 512 |"), std::string::npos) << markdown.out;
  const CommandRun csv = RunKvbed(Arguments(
      {"-c", "20", "-n", "3", "--prefill-chunk", "8,512", "-o", "csv", "--kernels", "native"}));
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 1 + 2 * (1 + 4)) << csv.out;
  const CommandRun lines = RunKvbed(Arguments({"-c", "20", "-n", "3", "-o", "jsonl"}));
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 1);
}

TEST(Drift, ALimitThatIsKeptIsNoFailure) {
  const Json json = Drift({"-c", "20", "-n", "3", "--fail-above", "99.99"});
  EXPECT_EQ(json["status"], "ok");
  EXPECT_EQ(json["fail_above_pct"], 99.99);
}

struct Refusal {
  std::vector<std::string> arguments;
  int exit_code;
  std::string says;
};

TEST(Drift, RefusesWithOneLine) {
  const std::vector<Refusal> refusals = {
      {{"--fail-above", "-1"}, kExitUsage, "from 0 (none) to less than 100"},
      {{"--fail-above", "100"}, kExitUsage, "from 0 (none) to less than 100"},
      {{"--fail-above", "nan"}, kExitUsage, "from 0 (none) to less than 100"},
      {{"--fail-above", "inf"}, kExitUsage, "from 0 (none) to less than 100"},
      {{"--fail-above", "1%"}, kExitUsage, "from 0 (none) to less than 100"},
      {{"--fail-above", ""}, kExitUsage, "from 0 (none) to less than 100"},
      {{"-c", "88-80+8"}, kExitUsage, "no list of token counts"},
      {{"-c", "0"}, kExitUsage, "no list of token counts"},
      {{"--prefill-chunk", "0"}, kExitUsage, "--prefill-chunk takes numbers from 1"},
      {{"--prefill-chunk", "1,2m"}, kExitUsage, "--prefill-chunk takes numbers from 1"},
      {{"--threads", "1,1025"}, kExitUsage, "--threads takes numbers from 1 to 1024"},
      {{"--threads", "two"}, kExitUsage, "--threads takes numbers from 1 to 1024"},
      {{"-n", "0"}, kExitUsage, "token count"},
      {{"--kernels", "cuda"}, kExitUsage, "--kernels takes native, torch, or both"},
      {{"--kernels", "native,"}, kExitUsage, "--kernels takes native, torch, or both"},
      {{"--isa", "mmx"}, kExitUsage, "--isa mmx: native kernels of this dtype run here on"},
      {{"--prompt", "text"}, kExitUsage, "--prompt-ids"},
      {{"--prompt-ids", "5,1000"}, kExitUsage, "outside the vocabulary"},
      {{"-c", "1024m"}, kExitUnusable, "GiB of memory"},
      {{"-c", "64k", "--pool-bytes", "1MB"}, kExitUsage, "--pool-bytes"},
      {{"--json", "/no/such/folder/x.json"}, kExitUnusable, "/no/such/folder"},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.arguments.front() + " " + refusal.arguments.back());
    const CommandRun run = RunKvbed(Arguments(refusal.arguments));
    EXPECT_EQ(run.exit_code, refusal.exit_code) << run.err;
    EXPECT_NE(run.err.find(refusal.says), std::string::npos) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST(Drift, RefusesContextsThatTheModelWasNotMadeFor) {
  const CommandRun run =
      RunKvbed({"drift", "-m", kGolden, "--prompt-ids", "5,70", "-c", "88-64k*2", "-n", "3"});
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_NE(run.err.find("was made for"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
}

TEST(Drift, TeachesInItsHelp) {
  const CommandRun run = RunKvbed({"drift", "--help"});
  EXPECT_EQ(run.exit_code, kExitOk);
  for (const char* part : {"--fail-above", "88-256+8", "rounding and never corruption",
                           "Exit codes", "changes one of these"}) {
    EXPECT_NE(run.out.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace kvbed
