// The main job on small models, through the command: every store, block size and place of the
// snapshot, and the controls that must fail.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

std::vector<std::string> Toy(std::vector<std::string> more) {
  std::vector<std::string> arguments{"run", "-m", "toy:8m?kv_heads=2", "-o", "json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void ExpectEqual(const CommandRun& run) {
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto json = run.Json();
  const auto& verdict = json.at("verdict");
  EXPECT_EQ(verdict.at("control").at("status"), "equal");
  for (const char* part : {"bytes", "logits", "tokens"}) {
    EXPECT_EQ(verdict.at(part).at("status"), "equal") << part;
  }
  EXPECT_EQ(verdict.at("bytes").at("differing_bits"), 0);
  EXPECT_GT(verdict.at("bytes").at("compared_bytes"), 0);
  EXPECT_EQ(json.at("restore").at("prefill_tokens_after_restore"), 0);
  EXPECT_EQ(json.at("status"), "ok");
}

struct Case {
  const char* block_tokens;
  const char* snapshot_at;  // of 20 decode calls after a prompt of 60 tokens
  const char* dtype;
  const char* where;  // "same", "fresh" or "memory"
};

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string("Block") + c.block_tokens + "At" + c.snapshot_at + "_" + c.dtype + "_" +
         c.where;
}

class MainJob : public testing::TestWithParam<Case> {};

TEST_P(MainJob, RestoresBitForBit) {
  const Case& c = GetParam();
  const TempDir folder;
  std::vector<std::string> arguments =
      Toy({"-c", "60", "-n", "21", "--block-tokens", c.block_tokens, "--snapshot-at", c.snapshot_at,
           "--dtype", c.dtype, "--store"});
  const std::string where = c.where;
  arguments.push_back(where == "memory" ? "memory:" : "slab:" + (folder / "kv"));
  if (where == "fresh") arguments.push_back("--fresh-process");
  ExpectEqual(RunKvbed(arguments));
}

// Every pair of values of two factors: block sizes, places of the snapshot (right after prefill, in
// the middle of a block, on a boundary of 16, 32, 4, 5), dtypes, stores.
INSTANTIATE_TEST_SUITE_P(
    Pairs, MainJob,
    testing::Values(Case{"1", "0", "bf16", "same"}, Case{"1", "4", "fp32", "fresh"},
                    Case{"1", "11", "bf16", "memory"}, Case{"4", "0", "fp32", "fresh"},
                    Case{"4", "4", "bf16", "memory"}, Case{"4", "11", "fp32", "same"},
                    Case{"5", "0", "bf16", "memory"}, Case{"5", "5", "fp32", "same"},
                    Case{"5", "11", "bf16", "fresh"}, Case{"7", "0", "fp32", "same"},
                    Case{"7", "3", "bf16", "fresh"}, Case{"7", "11", "fp32", "memory"},
                    Case{"16", "0", "bf16", "fresh"}, Case{"16", "4", "fp32", "memory"},
                    Case{"16", "11", "bf16", "same"}, Case{"32", "0", "fp32", "memory"},
                    Case{"32", "4", "bf16", "same"}, Case{"32", "11", "fp32", "fresh"},
                    Case{"64", "0", "bf16", "same"}, Case{"64", "4", "fp32", "fresh"},
                    Case{"64", "11", "bf16", "memory"}, Case{"256", "0", "fp32", "fresh"},
                    Case{"256", "4", "bf16", "memory"}, Case{"256", "11", "fp32", "same"}),
    NameOf);

// Right after the prefill the newest token is picked and has no KV yet, after decode calls
// likewise.
TEST(MainJob, APromptOfThreeTokensRestoresAfterThePrefillAndWithinItsFirstBlock) {
  for (const char* snapshot_at : {"0", "12"}) {
    SCOPED_TRACE(snapshot_at);
    ExpectEqual(
        RunKvbed(Toy({"--prompt-ids", "5,70,31", "-n", "16", "--snapshot-at", snapshot_at})));
  }
}

TEST(MainJobOnFiles, RunsSafetensorsGgufAndShards) {
  const std::string models = KVBED_GOLDEN_DIR "/model/";
  for (const char* model : {"gqa_8_2", "sharded", "mha_llama3_rope", "mha_llama3_rope.f32.gguf",
                            "mha_llama3_rope.bf16.gguf"}) {
    SCOPED_TRACE(model);
    ExpectEqual(RunKvbed({"run", "-m", models + model, "--prompt-ids", "5,70,31,300,12", "-n", "9",
                          "--block-tokens", "4", "-o", "json"}));
  }
}

TEST(MainJobReport, HasTheFixedNames) {
  const auto json = RunKvbed(Toy({"-c", "20", "-n", "6"})).Json();
  EXPECT_EQ(json.at("schema"), "kvbed-run/1");
  for (const char* name : {"kvbed_version", "argv", "seed", "started_at", "env", "model", "reasons",
                           "store", "prompt", "generated", "resumed", "kv_progression", "snapshot",
                           "restore", "verdict", "drift", "timings"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_EQ(json.at("kv_progression").size(), 6);  // prefill and 5 decode calls
  EXPECT_EQ(json.at("kv_progression").back().at(1), 25);
  EXPECT_EQ(json.at("generated").at("ids").size(), 6);
  EXPECT_EQ(json.at("model").at("kv_bytes_per_token"),
            json.at("model").at("kv_bytes_per_token_formula"));
  const auto& snapshot = json.at("snapshot");
  EXPECT_LE(snapshot.at("d0_ns"), snapshot.at("d1_ns"));
  EXPECT_LE(snapshot.at("d1_ns"), snapshot.at("d2_ns"));
  EXPECT_EQ(json.at("drift").at("status"), "measured");
  EXPECT_EQ(json.at("drift").at("layers").size(), 4);
}

TEST(MainJobReport, GivesBothPidsOfAFreshProcess) {
  const auto json = RunKvbed(Toy({"-c", "20", "-n", "6", "--fresh-process"})).Json();
  const auto& restore = json.at("restore");
  EXPECT_TRUE(restore.at("fresh_process").get<bool>());
  EXPECT_GT(restore.at("pid"), 0);
  EXPECT_GT(restore.at("run_pid"), 0);
  EXPECT_NE(restore.at("pid"), restore.at("run_pid"));
  const auto here = RunKvbed(Toy({"-c", "20", "-n", "6"})).Json().at("restore");
  EXPECT_EQ(here.at("pid"), here.at("run_pid"));
}

TEST(MainJobReport, DriftIsGivenApartForKAndVPromptAndDecode) {
  const auto drift = RunKvbed(Toy({"-c", "20", "-n", "6"})).Json().at("drift");
  const auto elements = [](const nlohmann::json& part) {
    return part.at("elements").get<uint64_t>();
  };
  EXPECT_EQ(elements(drift.at("k")) + elements(drift.at("v")), drift.at("elements"));
  uint64_t sum = 0;
  for (const auto& layer : drift.at("layers")) {
    for (const char* part : {"k_prompt", "k_decode", "v_prompt", "v_decode"}) {
      sum += elements(layer.at(part));
    }
  }
  EXPECT_EQ(sum, drift.at("elements"));
  EXPECT_EQ(drift.at("positions_left_out"), 0);
  EXPECT_TRUE(drift.at("tokens_match").is_boolean());
}

TEST(MainJobReport, NativeKernelsHaveNoDriftAndTorchsIsBesideIt) {
  const auto json = RunKvbed(Toy({"-c", "60", "-n", "9"})).Json();
  EXPECT_EQ(json.at("drift").at("kernels"), "native");
  EXPECT_EQ(json.at("drift").at("identical"), json.at("drift").at("elements"));
  EXPECT_EQ(json.at("drift").at("tokens_match"), true);
  const CommandRun text = RunKvbed({"run", "-m", "toy:8m?kv_heads=2", "-c", "60", "-n", "9"});
  EXPECT_NE(text.out.find("native    100 % of 69,632 elements identical\n"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("the same bits: each row is summed in one order; the same 9 tokens"),
            std::string::npos)
      << text.out;
#ifdef KVBED_HAS_TORCH
  ASSERT_EQ(json.at("drift_arms").size(), 1);
  const auto& torch = json.at("drift_arms").at(0);
  EXPECT_EQ(torch.at("factor"), "kernels");
  EXPECT_EQ(torch.at("value"), "torch");
  EXPECT_EQ(torch.at("status"), "measured");
  EXPECT_EQ(torch.at("numeric_environment").at("kernel_set"), "torch");
  EXPECT_EQ(torch.at("elements"), json.at("drift").at("elements"));
  EXPECT_NE(text.out.find("torch     "), std::string::npos) << text.out;
  // Some versions on some CPUs round a toy of this size alike.
  EXPECT_EQ(text.out.find("What differs is rounding") != std::string::npos,
            torch.at("identical") != torch.at("elements"))
      << text.out;
#else
  EXPECT_EQ(json.at("drift_arms").size(), 0);
  EXPECT_EQ(text.out.find("What differs is rounding"), std::string::npos) << text.out;
#endif
}

TEST(MainJobReport, WithoutDriftThereIsNoneOfAnyKernels) {
  const auto json = RunKvbed(Toy({"-c", "20", "-n", "6", "--no-drift"})).Json();
  EXPECT_EQ(json.at("drift").at("status"), "skipped");
  EXPECT_FALSE(json.contains("drift_arms"));
}

#ifdef KVBED_HAS_TORCH
TEST(MainJobReport, ARunOnTorchHasTheNativeKernelsBesideIt) {
  const CommandRun run = RunKvbed(Toy({"-c", "60", "-n", "9", "--kernels", "torch"}));
  ExpectEqual(run);
  const auto json = run.Json();
  EXPECT_EQ(json.at("model").at("kernels"), "torch");
  EXPECT_EQ(json.at("drift").at("kernels"), "torch");
  ASSERT_EQ(json.at("drift_arms").size(), 1);
  EXPECT_EQ(json.at("drift_arms").at(0).at("kernels"), "native");
  EXPECT_EQ(json.at("drift_arms").at(0).at("identical"), json.at("drift").at("elements"));
}
#endif

TEST(MainJob, ASnapshotAtTheEndLeavesNothingToResume) {
  for (const char* where : {"", "--fresh-process"}) {
    std::vector<std::string> arguments = Toy({"-c", "20", "-n", "1"});
    if (*where != '\0') arguments.push_back(where);
    const CommandRun run = RunKvbed(arguments);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const auto verdict = run.Json().at("verdict");
    EXPECT_EQ(verdict.at("bytes").at("status"), "equal");
    EXPECT_EQ(verdict.at("logits").at("status"), "not_assessable");
  }
}

TEST(MainJob, WithoutSyncNobodyWaitsForTheData) {
  const TempDir folder;
  const CommandRun run = RunKvbed(
      Toy({"-c", "20", "-n", "6", "--sync", "none", "--store", "slab:" + (folder / "kv")}));
  ExpectEqual(run);
  EXPECT_TRUE(run.Json().at("snapshot").at("d1_ns").is_null());
}

class Injection : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Injection, FailsTheVerdict) {
  const auto& [kind, check] = GetParam();
  const CommandRun run = RunKvbed(Toy({"-c", "46", "-n", "9", "--inject", kind}));
  EXPECT_EQ(run.exit_code, 1) << run.err;
  const auto json = run.Json();
  EXPECT_EQ(json.at("status"), "failed");
  EXPECT_EQ(json.at("verdict").at("bytes").at("status"), "differs");
  const auto& findings = json.at("verdict").at("bytes").at("findings");
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings.at(0).at("check"), check);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Injection,
                         testing::Values(std::pair{"flip", "payload"}, std::pair{"swap", "key"},
                                         std::pair{"stale", "generation"},
                                         std::pair{"truncate", "short"},
                                         std::pair{"skip", "poison"}, std::pair{"shift", "magic"}),
                         [](const auto& one) { return std::string(one.param.first); });

TEST_P(Injection, IsFoundInAFreshProcessToo) {
  const auto& [kind, check] = GetParam();
  if (std::string(kind) == "skip") return;  // of the same process only
  const CommandRun run =
      RunKvbed(Toy({"-c", "46", "-n", "9", "--inject", kind, "--fresh-process"}));
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_EQ(run.Json().at("verdict").at("bytes").at("findings").at(0).at("check"), check);
}

TEST(InjectionIntoMemory, ASkippedCopyIsFound) {
  const CommandRun run =
      RunKvbed(Toy({"-c", "46", "-n", "9", "--inject", "skip", "--store", "memory:"}));
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_EQ(run.Json().at("verdict").at("bytes").at("findings").at(0).at("check"), "poison");
}

TEST(InjectionIntoAStore, NeverCutsOtherSnapshotsAndLeavesNoStateBehind) {
  const TempDir folder;
  const std::string store = "slab:" + (folder / "kv");
  ASSERT_EQ(RunKvbed(Toy({"-c", "20", "-n", "6", "--store", store, "--name", "mine"})).exit_code,
            0);
  const CommandRun run = RunKvbed(Toy({"-c", "20", "--inject", "truncate", "--store", store}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("would lose records"), std::string::npos) << run.err;
  EXPECT_EQ(RunKvbed(Toy({"-c", "46", "-n", "9", "--inject", "stale", "--store", store})).exit_code,
            1);
  const auto listed = RunKvbed({"store", "ls", store, "-o", "json"}).Json().at("snapshots");
  ASSERT_EQ(listed.size(), 2);
  EXPECT_EQ(listed.at(0).at("name"), "mine");
  EXPECT_EQ(listed.at(1).at("name"), "run");
}

TEST(DamagedManifest, IsAFailedCheckOfTheRun) {
  const TempDir folder;
  const std::string manifest = folder / "kv/manifests/run.manifest";
  for (const char* where : {"", "--fresh-process"}) {
    std::vector<std::string> arguments =
        Toy({"-c", "20", "-n", "6", "--store", "slab:" + (folder / "kv"), "--replace",
             "--before-restore",
             "printf X | dd of='" + manifest + "' bs=1 seek=70 conv=notrunc 2>/dev/null"});
    if (*where != '\0') arguments.push_back(where);
    const CommandRun run = RunKvbed(arguments);
    EXPECT_EQ(run.exit_code, 1) << run.err;
    EXPECT_EQ(run.Json().at("verdict").at("bytes").at("findings").at(0).at("check"), "manifest");
  }
}

class OnMiss : public testing::TestWithParam<const char*> {};

TEST_P(OnMiss, RecomputeGoesOnCountsThePrefillAndStillFails) {
  std::vector<std::string> arguments =
      Toy({"-c", "45", "-n", "9", "--inject", "flip", "--on-miss", "recompute"});
  if (*GetParam() != '\0') arguments.push_back(GetParam());
  const CommandRun run = RunKvbed(arguments);
  EXPECT_EQ(run.exit_code, 1);
  const auto json = run.Json();
  EXPECT_GT(json.at("restore").at("prefill_tokens_after_restore"), 0);
  EXPECT_TRUE(json.at("restore").at("recomputed").get<bool>());
  EXPECT_EQ(json.at("resumed").at("ids").size(), 4);
}

INSTANTIATE_TEST_SUITE_P(Processes, OnMiss, testing::Values("", "--fresh-process"),
                         [](const auto& one) { return *one.param == '\0' ? "Same" : "Fresh"; });

TEST(Interrupted, EndsByTheSignalAndLeavesTheStoreConsistent) {
  const TempDir folder;
  const std::string store = "slab:" + (folder / "kv");
  ASSERT_EQ(RunKvbed(Toy({"-c", "20", "-n", "6", "--store", store, "--name", "mine"})).exit_code,
            0);
  for (const auto& [signal, code] : {std::pair{"INT", 130}, {"TERM", 143}, {"HUP", 129}}) {
    const CommandRun run =
        RunShell(fmt::format("env --default-signal=INT,TERM,HUP timeout --preserve-status -k 60 -s "
                             "{} 2 KVBED run -m toy:8m -n 100000 "
                             "--pool-bytes 1GB --store '{}' --name other",
                             signal, store));
    EXPECT_EQ(run.exit_code, code) << run.err;
  }
  const auto listed = RunKvbed({"store", "ls", store, "-o", "json"}).Json().at("snapshots");
  ASSERT_EQ(listed.size(), 1);
  EXPECT_EQ(RunKvbed({"resume", "-m", "toy:8m?kv_heads=2", "--store", store + "#mine"}).exit_code,
            0);
}

TEST(FileSizeLimit, IsAnErrorAndLeavesNoTemporaryFolder) {
  // Folders of tests that run beside this one come and go.
  CommandRun run;
  const auto lines = [&] { return std::count(run.err.begin(), run.err.end(), '\n'); };
  for (int i = 0; i < 10 && lines() != 1; ++i) {
    run = RunShell(
        "ls -d /var/tmp/kvbed-* 2>/dev/null | sort >before; (ulimit -f 100; KVBED run -m "
        "toy:8m -n 2 -c 40); code=$?; ls -d /var/tmp/kvbed-* 2>/dev/null | sort | diff "
        "before - >&2; rm before; exit $code");
  }
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_EQ(lines(), 1) << run.err;
}

TEST(ProgressBar, IsThereOnATerminalAndNowhereElse) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::string job = "KVBED generate -m toy:8m -c 200 -n 100";
#else
  const std::string job = "KVBED generate -m toy:8m -c 200 -n 1000";
#endif
  const CommandRun terminal = RunShell("script -qec \"" + job + "\" /dev/null </dev/null");
  EXPECT_NE(terminal.out.find("decode ["), std::string::npos) << terminal.out;
  EXPECT_NE(terminal.out.find("s left"), std::string::npos);
  const CommandRun pipe = RunShell(job);
  EXPECT_EQ(pipe.err, "");
  EXPECT_EQ(pipe.out.find('['), std::string::npos);
}

TEST(FreshProcess, FailsWhenTheStoreIsGone) {
  const TempDir folder;
  const std::string store = folder / "kv";
  const CommandRun run =
      RunKvbed(Toy({"-c", "20", "-n", "6", "--fresh-process", "--store", "slab:" + store,
                    "--before-restore", "rm -rf '" + store + "'"}));
  EXPECT_EQ(run.exit_code, 4) << run.out;
  EXPECT_NE(run.err.find(store), std::string::npos) << run.err;
}

TEST(Control, TurnsToDiffersInATestBuildThatPerturbsOneRun) {
  const CommandRun run =
      RunCommand(KVBED_PERTURBED_COMMAND, Toy({"-c", "20", "-n", "6", "--test-perturb-control"}));
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_EQ(run.Json().at("verdict").at("control").at("status"), "differs");
}

TEST(Control, IsEqualInTheSameTestBuildWithoutIt) {
  ExpectEqual(RunCommand(KVBED_PERTURBED_COMMAND, Toy({"-c", "20", "-n", "6"})));
}

TEST(TemporaryStore, IsRemovedAtTheEnd) {
  const auto json = RunKvbed(Toy({"-c", "20", "-n", "6"})).Json();
  const std::string spec = json.at("store").at("spec");
  ASSERT_EQ(spec.find("slab:"), 0);
  EXPECT_FALSE(std::filesystem::exists(spec.substr(5)));
  EXPECT_FALSE(json.at("snapshot").at("kept").get<bool>());
}

}  // namespace
}  // namespace kvbed
