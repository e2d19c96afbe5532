// `kvbed bench-engine` as a user runs it, on a small toy: rows and their arithmetic, formats, and
// what is refused before weights are read. Figures themselves are not tested.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/command.h"
#include "tests/support/json_names.h"
#include "tests/support/temp_dir.h"
#include "tools/exit_code.h"

namespace kvbed {
namespace {

using Json = nlohmann::json;

struct Lists {
  std::string prompts = "48", contexts = "0", batches = "1", calls = "4";
};
CommandRun BenchEngine(const std::vector<std::string>& more, const Lists& lists = {}) {
  std::vector<std::string> arguments = {
      "bench-engine", "-p",        lists.prompts, "-c", lists.contexts, "-b", lists.batches,
      "-n",           lists.calls, "-r",          "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  if (std::ranges::find(more, "-m") == more.end()) {
    arguments.insert(arguments.end(), {"-m", "toy:8m"});
  }
  return RunKvbed(arguments);
}

TEST(BenchEngine, HasARowForEachPromptAndEachContextAndBatch) {
  const CommandRun run = BenchEngine({"-o", "json"}, {.contexts = "0,32", .batches = "1,3"});
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  const Json rows = run.Json();
  ASSERT_EQ(rows.size(), 5u);
  for (const Json& row : rows) {
    EXPECT_EQ(row["schema"], "kvbed-engine/1");
    EXPECT_TRUE(HasNames(row, {"kvbed_version", "argv", "seed", "started_at", "env", "model",
                               "cell", "tok_per_s", "samples_ns", "weight_gb_per_s", "kv_gb_per_s",
                               "stream_gb_per_s", "gflop_per_s", "peak_gflop_per_s"}));
    EXPECT_TRUE(NullsHaveReasons(row));
    EXPECT_GT(row["tok_per_s"], 0);
    EXPECT_GT(row["gflop_per_s"], 0);
    EXPECT_EQ(row["cell"]["kernels"], DefaultKernels());
    EXPECT_EQ(row["stream_gb_per_s"].is_number(), HasNativeArithmetic(DType::kBf16, "portable"));
  }
  EXPECT_EQ(rows[0]["cell"]["phase"], "prefill");
  EXPECT_EQ(rows[0]["cell"]["prompt_tokens"], 48);
  EXPECT_EQ(rows[0]["samples_ns"].size(), 2u);
  EXPECT_EQ(rows[0]["weight_gb_per_s"], nullptr);
  const Json& last = rows[4];
  EXPECT_EQ(last["cell"]["phase"], "decode");
  EXPECT_EQ(last["cell"]["ctx_tokens"], 32);
  EXPECT_EQ(last["cell"]["batch"], 3);
  EXPECT_EQ(last["samples_ns"].size(), 4u);
  const double median_s = last["median_ns"].get<double>() / 1e9;
  EXPECT_NEAR(last["tok_per_s"].get<double>() * median_s, 3, 1e-6);
  // K and V of 3 sequences of 32 tokens, 3 warm-ups, 2 of the 4 calls, and the call's own token.
  const double kv_bytes = last["kv_gb_per_s"].get<double>() * median_s * 1e9;
  EXPECT_NEAR(kv_bytes, 3.0 * 38 * last["model"]["kv_bytes_per_token"].get<double>(), 1);
}

TEST(BenchEngine, MeasuresBesideBusyThreads) {
  const CommandRun run = BenchEngine({"--busy-threads", "0,2", "-o", "json"});
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  const Json rows = run.Json();
  ASSERT_EQ(rows.size(), 4u);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["cell"]["busy_threads"], i % 2 == 0 ? 0 : 2);
    EXPECT_EQ(rows[i]["cell"]["phase"], i < 2 ? "prefill" : "decode");
  }
}

TEST(BenchEngine, IsATableUnderALineOfEnvironmentByDefault) {
  const CommandRun run = BenchEngine({});
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_EQ(run.out.find("kvbed "), 0) << run.out;
  EXPECT_NE(run.out.find("\n| phase | prompt |"), std::string::npos) << run.out;
  const CommandRun csv = BenchEngine({"-o", "csv"});
  EXPECT_EQ(csv.out.find("phase,prompt_tokens,ctx_tokens,batch,busy_threads,tok_per_s"), 0)
      << csv.out;
  const CommandRun text = BenchEngine({"-o", "text"});
  EXPECT_NE(text.out.find("prefill of 48 tokens: "), std::string::npos) << text.out;
}

TEST(BenchEngine, RefusesWhatCantBeMeasuredBeforeTheWork) {
  const auto fails = [](const std::vector<std::string>& more, const Lists& lists, int code,
                        const std::string& says) {
    const CommandRun run = BenchEngine(more, lists);
    EXPECT_EQ(run.exit_code, code) << run.err;
    EXPECT_NE(run.err.find(says), std::string::npos) << run.err;
    EXPECT_EQ(run.out, "");
  };
  fails({}, {.contexts = "900000m"}, kExitUnusable, "sequences of");
  fails({}, {.batches = "0"}, kExitUsage, "'0'");
  fails({}, {.prompts = "x"}, kExitUsage, "'x'");
  fails({}, {.calls = "0"}, kExitUsage, "-n");
  fails({"--kernels", "magic"}, {}, kExitUsage, "magic");
  fails({"-m", "/no/such/model"}, {}, kExitUnusable, "/no/such/model");
}

}  // namespace
}  // namespace kvbed
