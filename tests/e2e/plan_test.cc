// `kvbed plan` as a user runs it: its forms, its files, and what it says of mistakes.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"
#include "tests/support/json_names.h"
#include "tests/support/temp_dir.h"
#include "tools/exit_code.h"

namespace kvbed {
namespace {

using PlanRows = nlohmann::json;

CommandRun RunPlan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  return RunKvbed(std::move(arguments));
}

TEST(PlanCommand, AnswersInOneSentence) {
  const CommandRun run = RunPlan({"--shape", "llama3-70b", "-c", "4k,128k", "--users", "1,8,32",
                                  "--disk-gb-per-s", "7", "--prefill-tok-per-s", "9000,a sheet"});
  EXPECT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_NE(run.out.find("42,949,672,960"), std::string::npos) << run.out;
  EXPECT_NE(
      run.out.find("the SSD helps, 8.43 s saved, 2.37 times as fast; the break-even bandwidth "
                   "is 2.95 GB/s."),
      std::string::npos)
      << run.out;
  EXPECT_NE(run.out.find("given: a sheet"), std::string::npos);
}

TEST(PlanCommand, HasTheSizesInEachForm) {
  const TempDir dir;
  const std::vector<std::string> base = {"--shape", "llama3-8b", "-c", "128k"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return RunPlan(more);
  };
  EXPECT_NE(with({}).out.find("17,179,869,184"), std::string::npos);
  EXPECT_NE(with({}).out.find("| 131,072 |     1 | 17,179,869,184 |"), std::string::npos);
  EXPECT_EQ(with({"-o", "md"}).out, with({}).out);
  EXPECT_EQ(with({"-o", "text"}).out.find('|'), std::string::npos);
  EXPECT_NE(with({"-o", "csv"}).out.find(",131072,1,131072,17179869184,"), std::string::npos);
  const std::string file = dir / "plan.json";
  const CommandRun run = with({"-o", "jsonl", "--json", file});
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 1);
  const PlanRows json = run.Json();
  EXPECT_EQ(json["schema"], "kvbed-plan/1");
  EXPECT_TRUE(HasNames(json, {"kvbed_version", "argv", "seed", "started_at", "env", "model",
                              "status", "reasons", "rows", "answer"}));
  EXPECT_EQ(json["rows"][0]["kv_bytes"], 17179869184u);
  std::ifstream written(file);
  EXPECT_EQ(PlanRows::parse(written), json);
}

TEST(PlanCommand, TakesAConfigFileAndMeasuredRows) {
  const TempDir dir;
  std::ofstream(dir / "config.json")
      << R"({"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
            "vocab_size": 32000, "sliding_window": 4096})";
  std::ofstream(dir / "rows.jsonl")
      << R"({"schema": "kvbed-bench/1", "status": "ok", "publishable": true,)"
      << R"("cell": {"ctx_tokens": 8192, "store": "slab:/x", "direct": true},)"
      << R"("restore": {"gb_per_s": 2.5}})"
      << "\n";
  const CommandRun run =
      RunPlan({"--shape", dir.path(), "--from", dir / "rows.jsonl", "-o", "json", "-c", "4k,128k"});
  EXPECT_EQ(run.exit_code, kExitOk) << run.err;
  const PlanRows json = run.Json();
  EXPECT_EQ(json["rows"][1]["kv_bytes"], 536870912u);
  EXPECT_EQ(json["rows"][1]["restore_ns"], 214748365u);
  EXPECT_NE(json["shapes"][0]["disk_gb_per_s"]["source"].get<std::string>().find("line 1"),
            std::string::npos);
  // What is given wins.
  const CommandRun given = RunPlan(
      {"--shape", "llama3-8b", "--from", dir / "rows.jsonl", "--disk-gb-per-s", "5", "-o", "json"});
  EXPECT_EQ(given.Json()["shapes"][0]["disk_gb_per_s"]["value"], 5.0);
}

TEST(PlanCommand, SaysWhatIsMissingOrWrong) {
  const TempDir dir;
  std::ofstream(dir / "gemma.json") << R"({"model_type": "gemma2"})";
  std::ofstream(dir / "cut.jsonl") << R"({"schema": "kvbed-ben)";
  const auto fails = [](std::vector<std::string> arguments, int exit_code, const char* says) {
    const CommandRun run = RunPlan(arguments);
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_NE(run.err.find(says), std::string::npos) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_EQ(run.out, "");
  };
  fails({}, kExitUsage, "plan needs --shape");
  fails({"--shape", "llama3-8B"}, kExitUsage, "did you mean llama3-8b?");
  fails({"--shape", dir / "none.json"}, kExitUnusable, "none.json");
  fails({"--shape", dir / "gemma.json"}, kExitUnusable, "gemma2");
  fails({"--shape", "llama3-8b", "-c", "-4"}, kExitUsage, "token counts");
  fails({"--shape", "llama3-8b", "--users", "0"}, kExitUsage, "numbers of users");
  fails({"--shape", "llama3-8b", "--tp", "3"}, kExitUsage, "3 ranks");
  fails({"--shape", "llama3-8b", "--tp", "0"}, kExitUsage, "--tp");
  fails({"--shape", "llama3-8b", "--kv-dtype", "fp4"}, kExitUsage, "fp8, int8");
  fails({"--shape", "llama3-8b", "--disk-gb-per-s", "nan"}, kExitUsage, "--disk-gb-per-s");
  fails({"--shape", "llama3-8b", "--prefill-tok-per-s", "-1"}, kExitUsage, "--prefill-tok-per-s");
  fails({"--shape", "llama3-8b", "--claim-seconds", "0"}, kExitUsage, "--claim-seconds");
  fails({"--shape", "llama3-8b", "--memory", "much"}, kExitUsage, "--memory");
  fails({"--shape", "llama3-8b", "-c", "1048576m", "--users", "1048576m"}, kExitUsage,
        "fewer tokens or users");
  fails({"--shape", "llama3-8b", "--from", dir / "none.jsonl"}, kExitUnusable, "none.jsonl");
  fails({"--shape", "llama3-8b", "--from", dir / "cut.jsonl"}, kExitUnusable, "line 1");
  fails({"--shape", "llama3-8b", "--from", dir / "cut.jsonl", "--json", dir / "cut.jsonl"},
        kExitUsage, "--json");
}

TEST(PlanCommand, TeachesInItsHelp) {
  const CommandRun run = RunPlan({"--help"});
  EXPECT_EQ(run.exit_code, kExitOk);
  for (const char* says : {"break-even", "kvbed plan --shape llama3-70b", "mixtral-8x7b"}) {
    EXPECT_NE(run.out.find(says), std::string::npos) << says;
  }
}

TEST(BenchCommand, RefusesShapesThatItsRecordsCantHold) {
  const auto fails = [](const std::string& shape, const std::string& ctx, const char* says) {
    const CommandRun run = RunKvbed({"bench", "--shape", shape, "-c", ctx, "--store", "memory:"});
    EXPECT_EQ(run.exit_code, kExitUsage) << run.err;
    EXPECT_NE(run.err.find(says), std::string::npos) << run.err;
  };
  fails("deepseek-v2-lite", "1k", "multi-head latent attention");
  fails("mistral-7b-v0.1", "8k", "sliding window");
}

TEST(BenchCommand, TakesOneByteKv) {
  const CommandRun run = RunKvbed({"bench", "--shape", "smollm2-135m", "--kv-dtype", "fp8", "-c",
                                   "64", "-r", "1", "--store", "memory:", "-o", "jsonl"});
  EXPECT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_EQ(run.Json()["model"]["dtype"], "fp8");
  EXPECT_EQ(run.Json()["cell"]["record_bytes"], 4096 + 16 * 11520);
  EXPECT_EQ(run.Json()["verify"]["status"], "equal");
}

}  // namespace
}  // namespace kvbed
