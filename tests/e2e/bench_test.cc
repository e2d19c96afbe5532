// `kvbed bench` as a user runs it, on little data: what the rows say, how it ends, and that nothing
// is left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/require.h"
#include "tests/support/temp_dir.h"
#include "tools/bench/fio.h"
#include "tools/device_counters.h"
#include "tools/exit_code.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Bench : public ::testing::Test {
 protected:
  // 64 tokens of SmolLM2's shape: 4 records, 1.5 MB.
  std::vector<std::string> Arguments(const std::vector<std::string>& more = {},
                                     const std::string& repetitions = "2") const {
    std::vector<std::string> arguments = {"bench",    "--shape", "smollm2-135m",  "-c",
                                          "64",       "-r",      repetitions,     "--direct",
                                          "optional", "--store", "slab:" + store_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // The one row of a repetition with these options, the context's among them; they may say another
  // number of repetitions, or other I/O.
  Json RowOf(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"bench",   "--shape",        "smollm2-135m", "--no-fio",
                                          "--store", "slab:" + store_, "-o",           "jsonl"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto unless_given = [&](const char* option, const char* value) {
      if (std::find(more.begin(), more.end(), option) != more.end()) return;
      arguments.insert(arguments.end(), {option, value});
    };
    unless_given("-r", "1");
    unless_given("--direct", "optional");
    const CommandRun run = RunKvbed(arguments);
    EXPECT_EQ(run.exit_code, kExitOk) << run.err;
    const std::vector<Json> rows = Rows(run.out);
    EXPECT_EQ(rows.size(), 1u) << run.out;
    return rows.empty() ? Json::object() : rows[0];
  }
  static std::vector<Json> Rows(const std::string& lines) {
    std::vector<Json> rows;
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
    return rows;
  }
  std::vector<std::string> Left() const {
    std::vector<std::string> names;
    if (!fs::exists(store_)) return names;
    for (const auto& entry : fs::directory_iterator(store_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TempDir dir_;
  std::string store_ = dir_ / "a/store";
};

TEST_F(Bench, ARowHasBothDirectionsVerifiedAndLeavesNothing) {
  const CommandRun run = RunKvbed(Arguments({"--no-fio", "-o", "jsonl", "--label", "mine"}));
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  const auto rows = Rows(run.out);
  ASSERT_EQ(rows.size(), 1u);
  const Json& row = rows[0];
  EXPECT_EQ(row["schema"], "kvbed-bench/1");
  EXPECT_EQ(row["status"], "ok");
  EXPECT_EQ(row["cell"]["ctx_tokens"], 64);
  EXPECT_EQ(row["cell"]["record_bytes"], 372736);
  EXPECT_EQ(row["cell"]["file_state"], "overwrite");
  EXPECT_EQ(row["cell"]["label"], "mine");
  EXPECT_EQ(row["bytes"]["app_read"], 2 * 4 * 372736);
  EXPECT_EQ(row["bytes"]["app_written"], 2 * 4 * 372736);
  EXPECT_EQ(row["bytes"]["dup4k_pct"], 0);
  EXPECT_EQ(row["offload"]["samples_ns"].size(), 2u);
  EXPECT_LE(row["offload"]["d0_ns"], row["offload"]["d1_ns"]);
  EXPECT_LE(row["offload"]["d1_ns"], row["offload"]["d2_ns"]);
  EXPECT_EQ(row["restore"]["samples_ns"].size(), 2u);
  EXPECT_EQ(row["restore"]["prefill_tokens_after_restore"], nullptr);
  EXPECT_EQ(row["verify"]["status"], "equal");
  EXPECT_EQ(row["verify"]["blocks"], 3 * 4) << "the warm-up is verified too";
  EXPECT_GT(row["ceiling"]["raw_read_gb_per_s"], 0);
  EXPECT_GT(row["ceiling"]["null_records_per_s"], 0);
  EXPECT_GT(row["offload_first_write"]["gb_per_s"], 0);
  EXPECT_EQ(row["ceiling"]["read_efficiency"], nullptr);
  EXPECT_EQ(row["ceiling"]["reason"], "--no-fio");
  EXPECT_EQ(row["publishable"], false);
  EXPECT_FALSE(fs::exists(store_)) << "the store was made for the benchmark";
}

TEST_F(Bench, FioStandsBesideEachRepetition) {
  if (!FioVersion().ok()) KVBED_SKIP_OR_FAIL("fio is not installed");
  const CommandRun run = RunKvbed(Arguments({"-o", "jsonl"}));
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  const Json ceiling = Rows(run.out).at(0)["ceiling"];
  if (!ceiling["reason"].is_null()) KVBED_SKIP_OR_FAIL(ceiling["reason"].get<std::string>());
  for (const char* name :
       {"write_gb_per_s", "read_gb_per_s", "write_efficiency", "read_efficiency"}) {
    EXPECT_GT(ceiling[name], 0) << name;
  }
  // So little is often done within the millisecond that fio's processor time is counted in.
  if (ceiling["cpu_s_per_gb"].is_null()) {
    EXPECT_TRUE(ceiling["cpu_s_per_gb_reason"].is_string());
  } else {
    EXPECT_GT(ceiling["cpu_s_per_gb"], 0);
  }

  // The job that the row gives is one that fio takes.
  std::ofstream(dir_ / "job.fio") << ceiling["fio_job"].get<std::string>();
  const CommandRun again =
      RunCommand("sh", {"-c", "cd " + dir_.path() + " && fio --output-format=terse job.fio"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

TEST_F(Bench, AVisibleBlockDeviceProvesTheRow) {
  const DeviceCounters counters = DeviceCounters::For(dir_.path(), {});
  if (counters.source() != CounterSource::kSectors) KVBED_SKIP_OR_FAIL(counters.reason());
  const CommandRun run = RunKvbed(Arguments({"--no-fio", "-o", "jsonl"}, "1"));
  ASSERT_EQ(run.exit_code, kExitOk) << run.out << run.err;
  const Json row = Rows(run.out).at(0), bytes = row["bytes"];
  EXPECT_EQ(bytes["proof"], "sectors");
  EXPECT_EQ(bytes["devices"], Json(counters.devices()));
  if (!row["store"]["direct"]) KVBED_SKIP_OR_FAIL("no direct I/O here");
  EXPECT_GE(bytes["device_read_ratio"], 0.98);
  EXPECT_GE(bytes["device_write_ratio"], 0.98);
  EXPECT_GE(bytes["proc_read"], bytes["app_read"]);
}

TEST_F(Bench, ACachedBufferedRunIsCaught) {
  const CommandRun run =
      RunKvbed({"bench", "--shape", "smollm2-135m", "-c", "256", "-r", "1", "--no-fio", "--direct",
                "off", "--store", "slab:" + store_, "--strict", "-o", "jsonl"});
  ASSERT_EQ(run.exit_code, kExitNoVerdict) << run.err;
  const Json row = Rows(run.out).at(0);
  EXPECT_EQ(row["store"]["direct"], false);
  EXPECT_EQ(row["publishable"], false);
  EXPECT_NE(row["reasons"].dump().find("the I/O is not direct"), std::string::npos);
  if (row["bytes"]["proc_read"].is_null()) KVBED_SKIP_OR_FAIL("no /proc/self/io");
  EXPECT_LT(row["bytes"]["proc_read"], row["bytes"]["app_read"].get<uint64_t>() / 50);
}

TEST_F(Bench, RowsOnTmpfsAreCalledMemory) {
  if (DeviceCounters::For("/dev/shm", {}).memory() != "tmpfs") {
    KVBED_SKIP_OR_FAIL("/dev/shm is no tmpfs");
  }
  const std::string store = "/dev/shm/kvbed-" + fs::path(dir_.path()).filename().string();
  for (const char* format : {"jsonl", "text"}) {
    const CommandRun run =
        RunKvbed({"bench", "--shape", "smollm2-135m", "-c", "64", "-r", "1", "--no-fio", "--direct",
                  "off", "--store", "slab:" + store, "-o", format});
    ASSERT_EQ(run.exit_code, kExitOk) << run.err;
    EXPECT_NE(run.out.find("tmpfs is memory and not a disk"), std::string::npos) << run.out;
    EXPECT_EQ(run.out.find("SSD"), std::string::npos);
    if (std::string(format) == "text") continue;
    const Json row = Rows(run.out).at(0);
    EXPECT_EQ(row["store"]["fs_type"], "tmpfs");
    EXPECT_EQ(row["bytes"]["proof"], "unavailable");
    EXPECT_EQ(row["bytes"]["memory"], "tmpfs");
    EXPECT_EQ(row["publishable"], false);
  }
  EXPECT_FALSE(fs::exists(store));
}

TEST_F(Bench, RunsEveryShapeAndContextAndWritesFilesBesideTheTable) {
  const std::string lines = dir_ / "rows.jsonl", file = dir_ / "rows.json";
  const CommandRun run = RunKvbed({"bench", "--shape", "smollm2-135m", "--shape", "llama3-8b", "-c",
                                   "16,40", "-r", "1", "--no-fio", "--store", "memory:", "-o",
                                   "csv", "--out", lines, "--json", file});
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 5) << "a head and four rows";
  std::ifstream in(lines);
  const auto rows = Rows({std::istreambuf_iterator<char>(in), {}});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["model"]["name"], "smollm2-135m");
  EXPECT_EQ(rows[1]["cell"]["ctx_tokens"], 40);
  EXPECT_EQ(rows[1]["cell"]["blocks"], 3) << "the last block is partly filled";
  EXPECT_EQ(rows[3]["model"]["name"], "llama3-8b");
  EXPECT_EQ(rows[3]["bytes"]["proof"], "unavailable");
  EXPECT_EQ(rows[3]["verify"]["status"], "equal");
  std::ifstream json_in(file);
  EXPECT_EQ(Json::parse(json_in).size(), 4u);
}

TEST_F(Bench, StrictEndsWith3WhenARowCantBePublished) {
  EXPECT_EQ(RunKvbed(Arguments({"--no-fio", "--strict"})).exit_code, kExitNoVerdict);
}

TEST_F(Bench, AStoreThatWasThereStaysAsItWas) {
  ASSERT_EQ(RunKvbed(Arguments({"--no-fio", "--keep"})).exit_code, kExitOk);
  const auto kept = Left();
  const CommandRun before = RunKvbed({"store", "ls", "slab:" + store_});
  ASSERT_EQ(before.exit_code, kExitOk) << before.err;
  EXPECT_NE(before.out.find("bench-"), std::string::npos);
  ASSERT_EQ(RunKvbed(Arguments({"--no-fio"})).exit_code, kExitOk);
  EXPECT_EQ(Left(), kept);
  EXPECT_EQ(RunKvbed({"store", "ls", "slab:" + store_}).out, before.out);
}

// Starts a long benchmark, and signals it once its files are there.
CommandRun RunAndSignal(std::vector<std::string> arguments, const std::string& store,
                        const std::string& signal) {
  std::string command = KVBED_COMMAND;
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  return RunCommand("sh", {"-c", command + " & p=$!; for i in $(seq 1000); do ls " + store +
                                     "/bench-files-* >/dev/null 2>&1 && break; sleep 0.01; done; "
                                     "kill -" +
                                     signal + " $p; wait $p"});
}

TEST_F(Bench, AnInterruptRemovesItsFiles) {
  // A shell that isn't interactive starts background processes with SIGINT ignored.
  const CommandRun run = RunAndSignal(Arguments({"--no-fio"}, "10000"), store_, "TERM");
  EXPECT_EQ(run.exit_code, 128 + SIGTERM) << run.err;
  EXPECT_FALSE(fs::exists(store_));
}

// The signal comes half a second after the first row is in the file, while the second cell is under
// way for seconds.
TEST_F(Bench, AnInterruptKeepsTheRowsThatAreDoneAndNamesTheOthers) {
  const std::string lines = dir_ / "rows.jsonl";
  std::string command = KVBED_COMMAND;
  for (const std::string& argument :
       {std::string("bench"), std::string("--shape"), std::string("smollm2-135m"),
        std::string("-c"), std::string("16,4k,8k"), std::string("-r"), std::string("30"),
        std::string("--no-fio"), std::string("--keep"), std::string("--direct"),
        std::string("optional"), std::string("--store"), "slab:" + store_, std::string("--out"),
        lines}) {
    command += " '" + argument + "'";
  }
  // A shell that isn't interactive starts background processes with SIGINT ignored; env sets it
  // back.
  const CommandRun run =
      RunCommand("sh", {"-c", "env --default-signal=INT " + command +
                                  " & p=$!; for i in $(seq 3000); do test -s " + lines +
                                  " && break; sleep 0.01; done; sleep 0.5; kill -INT $p; wait $p"});
  EXPECT_EQ(run.exit_code, 128 + SIGINT) << run.err;
  std::ifstream in(lines);
  const auto rows = Rows({std::istreambuf_iterator<char>(in), {}});
  ASSERT_EQ(rows.size(), 2u) << run.err;
  EXPECT_EQ(rows[0]["status"], "ok");
  EXPECT_EQ(rows[1]["status"], "failed");
  EXPECT_EQ(rows[1]["cell"]["ctx_tokens"], 4096);
  EXPECT_EQ(rows[1]["reasons"][0], "interrupted");
  EXPECT_NE(run.err.find("not done: 4096 tokens"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("8192 tokens"), std::string::npos) << run.err;
  // Of the first cell, since --keep was given, and not half of the second.
  const CommandRun list = RunKvbed({"store", "ls", "slab:" + store_});
  EXPECT_NE(list.out.find(" 16 tokens"), std::string::npos) << list.out;
  EXPECT_EQ(list.out.find("4096 tokens"), std::string::npos) << list.out;
  EXPECT_EQ(std::count(list.out.begin(), list.out.end(), '\n'), 1) << list.out;
}

TEST_F(Bench, WhatAKilledOneLeftIsSweptByTheNext) {
  const CommandRun run = RunAndSignal(Arguments({"--no-fio"}, "10000"), store_, "KILL");
  EXPECT_EQ(run.exit_code, 128 + SIGKILL);
  const auto left = Left();
  ASSERT_TRUE(std::any_of(left.begin(), left.end(),
                          [](const auto& name) { return name.starts_with("bench-files-"); }));
  ASSERT_EQ(RunKvbed(Arguments({"--no-fio"})).exit_code, kExitOk);
  for (const std::string& name : Left()) EXPECT_FALSE(name.starts_with("bench-")) << name;
  EXPECT_EQ(RunKvbed({"store", "ls", "slab:" + store_}).out.find("bench-"), std::string::npos);
}

TEST_F(Bench, SaysWhatIsMissingOrWrong) {
  const auto fails = [](std::vector<std::string> arguments, const std::string& says) {
    arguments.insert(arguments.begin(), "bench");
    const CommandRun run = RunKvbed(arguments);
    EXPECT_EQ(run.exit_code, kExitUsage);
    EXPECT_NE(run.err.find(says), std::string::npos) << run.err;
    EXPECT_EQ(run.out, "");
  };
  fails({"--store", "memory:"}, "--shape smollm2-135m");
  fails({"--shape", "smollm2-135m"}, "--store slab:");
  fails({"-m", "toy:8m", "--shape", "smollm2-135m", "--store", "memory:"}, "not both");
  fails({"-m", "toy:8m", "--pool-bytes", "1GiB", "--store", "memory:"}, "--pool-bytes");
  fails({"-m", "toy:8m", "--tp", "2", "--store", "memory:"}, "--tp");
  fails({"--shape", "smollm2-135m", "--pool-bytes", "4k", "--store", "memory:"}, "--pool-bytes");
  fails({"--shape", "llama3-8b", "--tp", "3", "--store", "memory:"}, "3");
  fails({"--shape", "smollm2-135m", "--prefill-tok-per-s", "0", "--store", "memory:"},
        "--prefill-tok-per-s");
  fails({"--shape", "smolm2-135m", "--store", "memory:"}, "did you mean smollm2-135m?");
  fails({"--shape", "smollm2-135m", "--store", "slab:/x#name"}, "not a snapshot");
  fails({"--shape", "smollm2-135m", "--store", "memory:", "-c", "4x"}, "-c");
  const auto load_fails = [&](std::vector<std::string> load, const std::string& says) {
    load.insert(load.begin(), {"--shape", "smollm2-135m", "-c", "64", "--direct", "optional"});
    fails(load, says);
  };
  const std::string slab = "slab:" + store_;
  load_fails({"--store", "memory:", "--aged"}, "--aged needs a store with files");
  load_fails({"--store", "memory:", "--working-set", "1GB"}, "--working-set needs a store");
  load_fails({"--store", slab, "--working-set", "1MB"}, "has 1490944 bytes");
  load_fails({"--store", slab, "--working-set", "much"}, "--working-set");
  load_fails({"--store", slab, "--cache", "cold"}, "direct=off");
  load_fails({"--store", slab + "?direct=off", "--cache", "luke"}, "warm or cold");
  load_fails({"--store", slab, "--mix", "0"}, "--mix");
  load_fails({"--store", slab + "?direct=off", "--mix", "1", "--cache", "cold"}, "--mix");
  load_fails({"--store", slab, "--tbw", "600,vendor"}, "--tbw");
  load_fails({"--store", slab, "--profile", "quick"}, "--profile");
  load_fails({"--store", slab, "--rounds-max", "9"}, "--profile steady");
  load_fails({"--store", slab, "--profile", "steady", "-r", "5"}, "--rounds-max");
  load_fails({"--store", slab, "--fio", "--no-fio"}, "--no-fio");
  fails({"-m", "toy:8m", "--working-set", "1GB", "--store", slab}, "--working-set");
  EXPECT_FALSE(fs::exists(store_));
}

TEST_F(Bench, MovesALongContextThroughASmallPoolInRounds) {
  const Json row = RowOf({"-c", "1k", "--pool-bytes", "8MB"});
  EXPECT_EQ(row["cell"]["rounds"], 4);  // 64 records of 372,736 bytes, 21 at once
  EXPECT_LE(row["cell"]["pool_bytes"], 8'000'000);
  EXPECT_EQ(row["verify"]["status"], "equal");
  EXPECT_EQ(row["verify"]["blocks"], 64 * 2);
  EXPECT_EQ(row["bytes"]["app_written"], 64 * 372736);
  EXPECT_EQ(row["bytes"]["app_read"], 64 * 372736);
}

TEST_F(Bench, GoesThroughAPoolOfFewerRecordsThanTheDepth) {
  for (const auto& [pool, rounds] : {std::pair("400KiB", 16), std::pair("3MB", 2)}) {
    const Json row = RowOf({"-c", "256", "--pool-bytes", pool, "--iodepth", "32"});
    EXPECT_EQ(row["cell"]["rounds"], rounds);
    EXPECT_EQ(row["verify"]["status"], "equal");
    EXPECT_GT(row["ceiling"]["raw_write_gb_per_s"], 0);
  }
}

TEST_F(Bench, AContextThatQueuesCantShareEvenlyIsOneRound) {
  const Json row = RowOf({"-c", "100", "--numjobs", "2"});  // 7 records
  EXPECT_EQ(row["cell"]["rounds"], 1);
  EXPECT_EQ(row["cell"]["pool_bytes"], 7 * 372736);
  EXPECT_EQ(row["verify"]["status"], "equal");
}

TEST_F(Bench, QueuesWithoutARecordAreFoundBeforeTheFirstCell) {
  for (const char* run : {"--dry-run", "--no-fio"}) {
    const CommandRun refused = RunKvbed({"bench", "--shape", "smollm2-135m", "-c", "256,16",
                                         "--numjobs", "2", "--store", "slab:" + store_, run});
    EXPECT_EQ(refused.exit_code, kExitUsage);
    EXPECT_NE(refused.err.find("fewer queues"), std::string::npos) << refused.err;
    EXPECT_EQ(refused.out, "");
  }
  EXPECT_FALSE(fs::exists(store_));
}

TEST_F(Bench, RatesBeyondWhatCanBeCountedAreRefused) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--prefill-tok-per-s", "1000000000000", "-c", "128"},
           {"--prefill-tok-per-s", "0.000001", "-c", "16m", "--pool-bytes", "8MB"},
           {"--tbw", "1000000000000"}}) {
    std::vector<std::string> arguments = {"bench",   "--shape",        "smollm2-135m",
                                          "--store", "slab:" + store_, "--no-fio"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandRun run = RunKvbed(arguments);
    EXPECT_EQ(run.exit_code, kExitUsage) << run.out;
    EXPECT_NE(run.err.find(more[0]), std::string::npos) << run.err;
  }
  const Json row = RowOf({"-c", "64", "--tbw", "1000000"});
  EXPECT_EQ(row["endurance"]["tbw_bytes"], 1'000'000'000'000'000'000);
}

TEST_F(Bench, ATableSaysWhyBelowItAndALabelCantBreakIt) {
  const CommandRun run = RunKvbed(Arguments({"--no-fio", "--label", "a\n|\x1b[31m"}));
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
  EXPECT_NE(run.out.find(", label a\\n|\\x1b[31m\n"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("Failed or not publishable:\n\n- smollm2-135m, 64 tokens, slab:"),
            std::string::npos)
      << run.out;
  EXPECT_NE(run.out.find("no fio beside it: --no-fio"), std::string::npos) << run.out;
}

TEST_F(Bench, MovesSequencesAtOnceOverSeveralQueues) {
  const Json row = RowOf({"-c", "256", "--sequences", "2", "--numjobs", "3"});
  EXPECT_EQ(row["cell"]["sequences"], 2);
  EXPECT_EQ(row["cell"]["numjobs"], 3);
  EXPECT_EQ(row["cell"]["blocks"], 2 * 16);
  EXPECT_EQ(row["verify"]["status"], "equal");
  EXPECT_LE(row["restore"]["first_done_ns"], row["restore"]["last_done_ns"]);
  EXPECT_TRUE(row["break_even"]["seconds_saved"].is_null());
}

TEST_F(Bench, SplitsRecordsOverTheRanksOfTensorParallelism) {
  const Json row = RowOf({"-c", "256", "--tp", "3"});
  EXPECT_EQ(row["cell"]["tp"], 3);
  EXPECT_EQ(row["cell"]["record_bytes"], 4096 + 16 * 7680);  // one KV head of three
  EXPECT_EQ(row["bytes"]["kv"], 256 * 23040);
  EXPECT_EQ(row["verify"]["status"], "equal");
}

TEST_F(Bench, ComparesWithAPrefillRateThatIsGiven) {
  const Json row = RowOf({"-c", "256", "--prefill-tok-per-s", "512,data sheet"});
  EXPECT_EQ(row["ttft"]["recompute"]["given"], true);
  EXPECT_EQ(row["ttft"]["recompute"]["prefill_ns"], 500'000'000);
  EXPECT_GT(row["break_even"]["bandwidth_gb_per_s"].get<double>(), 0);
  EXPECT_TRUE(row["ttft"]["restore"].is_null());
}

TEST_F(Bench, RestoresAWorkingSetInAStoreThatWasAged) {
  const Json row = RowOf({"-c", "256", "--working-set", "20MB", "--aged", "-r", "5"});
  EXPECT_EQ(row["working_set"]["snapshots"], 4);  // of 16 records each
  EXPECT_EQ(row["working_set"]["bytes"], 4 * 16 * 372736);
  EXPECT_GT(row["working_set"]["of_memory"], 0);
  EXPECT_EQ(row["aged"]["snapshots"], 26);  // 20 MB in snapshots of 2 records
  EXPECT_EQ(row["aged"]["freed"], 13);
  EXPECT_EQ(row["aged"]["refilled"], 7);
  EXPECT_EQ(row["cell"]["file_state"], "overwrite");
  EXPECT_EQ(row["verify"]["status"], "equal");
  EXPECT_EQ(row["verify"]["blocks"], 6 * 16);
  EXPECT_FALSE(fs::exists(store_));
}

TEST_F(Bench, RestoresBesideAnOffload) {
  const Json row = RowOf({"-c", "256", "--mix", "0.05", "-r", "3"});
  EXPECT_EQ(row["mix"]["offload_gb_per_s_asked"], 0.05);
  EXPECT_GT(row["mix"]["restore_gb_per_s"], 0);
  EXPECT_EQ(row["mix"]["lat_ns"]["n"], 3 * 16);
  EXPECT_EQ(row["mix"]["alone_lat_ns"]["n"], 3 * 16);
  EXPECT_EQ(row["verify"]["blocks"], (4 + 3) * 16);
  EXPECT_EQ(row["verify"]["status"], "equal");
}

TEST_F(Bench, RestoresBesideAnOffloadInMemoryAndThroughASmallPool) {
  const CommandRun run = RunKvbed({"bench", "--shape", "smollm2-135m", "-c", "512", "-r", "1",
                                   "--no-fio", "--mix", "0.05", "--sequences", "2", "--pool-bytes",
                                   "8MB", "--store", "memory:", "-o", "jsonl"});
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  const Json row = Rows(run.out).at(0);
  EXPECT_EQ(row["mix"]["offload_snapshot_bytes"], row["cell"]["pool_bytes"]);
  EXPECT_EQ(row["mix"]["lat_ns"]["n"], 2 * 32);
  EXPECT_EQ(row["cell"]["cache_mode_reason"], "the store has no files");
}

TEST_F(Bench, LabelsBaselinesOfThePageCache) {
  const Json warm = RowOf({"-c", "64", "--direct", "off", "--cache", "warm"});
  EXPECT_EQ(warm["cell"]["cache_mode"], "warm");
  EXPECT_EQ(warm["cache"]["state"], "warm");
  EXPECT_EQ(warm["publishable"], false);
  const Json cold = RowOf({"-c", "64", "--direct", "off", "--cache", "cold"});
  EXPECT_EQ(cold["cell"]["cache_mode"], "cold");
  // A filesystem in memory can't drop its pages, and the row says so.
  const std::string state = cold["cache"]["state"];
  EXPECT_EQ(state, cold["cache"]["resident_share_max"] < 0.01 ? "cold" : "not cold");
  EXPECT_EQ(cold["publishable"], false);
}

TEST_F(Bench, TheProfileForCiIsShortAndSaysThatItIsNoMeasurement) {
  const Json row = RowOf({"--profile", "ci", "-c", "64", "-r", "5"});
  EXPECT_EQ(row["cell"]["profile"], "ci");
  EXPECT_EQ(row["steady"]["state"], "not_assessed");
  EXPECT_EQ(row["publishable"], false);
  const CommandRun run = RunKvbed(
      {"bench", "--shape", "smollm2-135m", "--profile", "ci", "--store", "memory:", "-o", "jsonl"});
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  const Json defaults = Rows(run.out).at(0);
  EXPECT_EQ(defaults["cell"]["ctx_tokens"], 1024);
  EXPECT_EQ(defaults["offload"]["n"], 2);
}

TEST_F(Bench, ASteadyProfileGoesOnUntilItsLastRoundsAreAlikeOrTheyAreTooMany) {
  const CommandRun run = RunKvbed({"bench", "--shape", "smollm2-135m", "-c", "64", "--no-fio",
                                   "--profile", "steady", "--rounds-max", "7", "--direct",
                                   "optional", "--store", "slab:" + store_, "-o", "jsonl"});
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  const Json row = Rows(run.out).at(0);
  const uint64_t rounds = row["steady"]["rounds"];
  EXPECT_GE(rounds, 5u);
  EXPECT_LE(rounds, 7u);
  EXPECT_EQ(row["interval_gb_per_s"].size(), rounds);
  EXPECT_EQ(row["interval_restore_gb_per_s"].size(), rounds);
  EXPECT_EQ(row["offload"]["n"], 5) << "the last five are the measurement";
  EXPECT_EQ(row["restore"]["lat_ns"]["n"], 5 * 4);
  EXPECT_EQ(row["verify"]["blocks"], (1 + rounds) * 4);
  if (rounds < 7) EXPECT_EQ(row["steady"]["state"], "reached");
}

TEST_F(Bench, ACapacityThatIsTooSmallForTheSecondCellKeepsTheFirst) {
  const std::string file = dir_ / "rows.json";
  const CommandRun run = RunKvbed(
      {"bench", "--shape", "smollm2-135m", "-c", "64,1k,2k", "-r", "1", "--no-fio", "--direct",
       "optional", "--store", "slab:" + store_ + "?capacity=8MB", "-o", "jsonl", "--json", file});
  EXPECT_EQ(run.exit_code, kExitUnusable);
  const auto rows = Rows(run.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["status"], "ok");
  EXPECT_EQ(rows[1]["status"], "failed");
  EXPECT_EQ(rows[1]["cell"]["ctx_tokens"], 1024);
  EXPECT_NE(rows[1]["reasons"].dump().find("capacity"), std::string::npos);
  EXPECT_NE(run.err.find("not done: 1024 tokens of smollm2-135m"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("2048 tokens of smollm2-135m"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("(1 of 3 rows are done)"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  std::ifstream in(file);
  EXPECT_EQ(Json::parse(in).size(), 2u);
  EXPECT_FALSE(fs::exists(store_));
}

TEST_F(Bench, NoRoomForTheWorkingSetIsFoundBeforeTheFirstWrite) {
  const CommandRun run = RunKvbed({"bench", "--shape", "smollm2-135m", "-c", "64", "--no-fio",
                                   "--direct", "optional", "--working-set", "20MB", "--store",
                                   "slab:" + store_ + "?capacity=8MB", "-o", "jsonl"});
  EXPECT_EQ(run.exit_code, kExitUnusable);
  const Json row = Rows(run.out).at(0);
  EXPECT_NE(row["reasons"].dump().find("room for"), std::string::npos) << row["reasons"];
  EXPECT_EQ(row["bytes"]["app_written"], 0);
  EXPECT_EQ(row["working_set"], nullptr);
}

TEST_F(Bench, ADryRunWritesNothing) {
  const CommandRun run = RunKvbed(
      {"bench", "--shape", "llama3-8b", "-c", "1k,2k", "--store", "slab:" + store_, "--dry-run"});
  EXPECT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_NE(run.out.find("2 cells"), std::string::npos) << run.out;
  EXPECT_FALSE(fs::exists(store_));
  // What doesn't fit is told with how much it is.
  const CommandRun large = RunKvbed({"bench", "--shape", "llama3-8b", "-c", "16m", "--pool-bytes",
                                     "1GiB", "--store", "slab:" + store_, "--dry-run"});
  EXPECT_EQ(large.exit_code, kExitUnusable);
  EXPECT_NE(large.out.find("16777216 tokens"), std::string::npos) << large.out;
  EXPECT_NE(large.err.find("are free"), std::string::npos) << large.err;
}

TEST_F(Bench, ADryRunIsJsonWhereThatIsAskedFor) {
  const Json plan = RunKvbed({"bench", "--shape", "llama3-8b", "-c", "1k,2k", "--store",
                              "slab:" + store_, "--dry-run", "-o", "json"})
                        .Json();
  EXPECT_EQ(plan["schema"], "kvbed-bench-plan/1");
  ASSERT_EQ(plan["cells"].size(), 2u);
  EXPECT_EQ(plan["cells"][1]["ctx_tokens"], 2048);
  EXPECT_EQ(plan["cells"][1]["records"], 128);
  EXPECT_EQ(plan["cells"][1]["record_bytes"], 2101248);
  EXPECT_GT(plan["moved_bytes_most"], plan["cells"][1]["moved_bytes_most"]);
  EXPECT_FALSE(fs::exists(store_));
}

TEST_F(Bench, IsATableUnderALineOfEnvironmentByDefault) {
  const CommandRun run = RunKvbed({"bench", "--shape", "smollm2-135m", "-c", "256", "-r", "1",
                                   "--no-fio", "--store", "memory:"});
  EXPECT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_EQ(run.out.find("kvbed "), 0) << run.out;
  EXPECT_NE(run.out.find("\n| shape | ctx |"), std::string::npos) << run.out;
}

TEST_F(Bench, ContextsThatDontFitInMemoryAreRefusedBeforeTheWork) {
  const CommandRun run = RunKvbed({"bench", "--shape", "llama3-8b", "-c", "1024m", "--store",
                                   "slab:" + store_, "--direct", "optional"});
  EXPECT_EQ(run.exit_code, kExitUnusable);
  EXPECT_NE(run.err.find("take fewer tokens"), std::string::npos) << run.err;
  EXPECT_FALSE(fs::exists(store_));
}

}  // namespace
}  // namespace kvbed
