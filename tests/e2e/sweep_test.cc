// `kvbed sweep` as a user runs it, on little data: what the rows say, what is refused, how it ends,
// and that nothing is left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "backends/direct_io.h"
#include "backends/io.h"
#include "tests/support/command.h"
#include "tests/support/require.h"
#include "tests/support/temp_dir.h"
#include "tools/bench/fio.h"
#include "tools/exit_code.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Sweep : public ::testing::Test {
 protected:
  // Two sizes at two depths, 1 MiB each, unless `more` says otherwise.
  std::vector<std::string> Arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"sweep", "--store", "slab:" + store_};
    const std::vector<std::pair<std::string, std::string>> defaults = {{"--bs", "16k,64k"},
                                                                       {"--iodepth", "1,4"},
                                                                       {"--bytes", "1MiB"},
                                                                       {"-r", "2"},
                                                                       {"--direct", "optional"}};
    for (const auto& [name, value] : defaults) {
      if (std::find(more.begin(), more.end(), name) != more.end()) continue;
      arguments.insert(arguments.end(), {name, value});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static std::vector<Json> Rows(const std::string& lines) {
    std::vector<Json> rows;
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
    return rows;
  }
  static std::string Text(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<Json> Run(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = Arguments(more);
    arguments.insert(arguments.end(), {"-o", "jsonl"});
    const CommandRun run = RunKvbed(arguments);
    EXPECT_EQ(run.exit_code, kExitOk) << run.err;
    EXPECT_FALSE(fs::exists(dir_ / "a")) << "the folders were made for the sweep";
    return Rows(run.out);
  }
  void Fails(const std::vector<std::string>& arguments, int exit_code, const std::string& says) {
    const CommandRun run = RunKvbed(arguments);
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_NE(run.err.find(says), std::string::npos) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_FALSE(fs::exists(dir_ / "a"));
  }
  bool HasUring() const { return OpenIo(IoEngine::kIoUring).ok(); }

  TempDir dir_;
  std::string store_ = dir_ / "a/store";
};

TEST_F(Sweep, HasARowForEachPointAndLeavesNothing) {
  const auto rows = Run({"--label", "mine"});
  ASSERT_EQ(rows.size(), 8u) << "two directions, sizes and depths";
  for (const Json& row : rows) {
    EXPECT_EQ(row["schema"], "kvbed-sweep/1");
    EXPECT_EQ(row["status"], "ok") << row["reasons"];
    EXPECT_EQ(row["cell"]["label"], "mine");
    EXPECT_EQ(row["cell"]["order"], "sequential");
    EXPECT_EQ(row["cell"]["file_state"], "overwrite");
    EXPECT_EQ(row["cell"]["bytes"], 1 << 20);
    EXPECT_EQ(row["bytes"]["app"], 2 << 20) << "the warm-up isn't counted";
    EXPECT_EQ(row["samples_ns"].size(), 2u);
    EXPECT_GT(row["gb_per_s"], 0);
    EXPECT_GT(row["iops"], 0);
    EXPECT_GT(row["cpu_s_per_gb"], 0);
    EXPECT_GT(row["lat_ns"]["p50"], 0);
    EXPECT_EQ(row["lat_ns"]["n"], 2 * (1 << 20) / row["cell"]["bs_bytes"].get<int>());
    EXPECT_TRUE(row["env"]["cpu"].is_string());
    EXPECT_EQ(row["publishable"], false) << "two repetitions are too few";
  }
  EXPECT_EQ(rows[0]["cell"]["op"], "read");
  EXPECT_EQ(rows[0]["verify"]["status"], "equal");
  EXPECT_EQ(rows[0]["lat_ns"]["p99"].is_null(), false);
  EXPECT_EQ(rows[2]["lat_ns"]["p99"], nullptr) << "32 blocks of 64 KiB are too few";
  EXPECT_EQ(rows[7]["cell"]["op"], "write");
  EXPECT_EQ(rows[7]["cell"]["bs_bytes"], 65536);
  EXPECT_EQ(rows[7]["cell"]["iodepth"], 4);
}

TEST_F(Sweep, BothRowsOfAGroupHaveItsKnee) {
  if (!HasUring()) KVBED_SKIP_OR_FAIL("no io_uring");
  const auto rows = Run({"--ioengine", "io_uring", "--bs", "64k", "--rw", "read"});
  ASSERT_EQ(rows.size(), 2u);
  const Json knee = rows[0]["knee"];
  EXPECT_EQ(knee, rows[1]["knee"]);
  EXPECT_EQ(knee["peak_gb_per_s"],
            std::max(rows[0]["gb_per_s"].get<double>(), rows[1]["gb_per_s"].get<double>()));
  EXPECT_GE(knee["gb_per_s"].get<double>(), 0.95 * knee["peak_gb_per_s"].get<double>());
  const Json& at = knee["iodepth"] == 1 ? rows[0] : rows[1];
  EXPECT_EQ(knee["lat_p50_ns"], at["lat_ns"]["p50"]);

  const auto alone = Run({"--bs", "64k", "--iodepth", "4", "--rw", "read"});
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0]["knee"], nullptr);
  EXPECT_NE(alone[0]["knee_reason"], nullptr);
}

TEST_F(Sweep, SaysWhatHappenedAndNotWhatWasAsked) {
  if (!HasUring()) KVBED_SKIP_OR_FAIL("no io_uring");
  const auto rows = Run({"--ioengine", "io_uring,psync", "--registered", "on,off", "--bs", "64k",
                         "--iodepth", "4", "--rw", "read"});
  ASSERT_EQ(rows.size(), 3u) << "psync has nothing to register";
  EXPECT_EQ(rows[0]["cell"]["ioengine"], "io_uring");
  EXPECT_EQ(rows[0]["iodepth_achieved"], 4);
  EXPECT_EQ(rows[1]["cell"]["registered"], false);
  EXPECT_NE(rows[1]["store"]["registered_buffers_reason"], nullptr);
  EXPECT_EQ(rows[2]["cell"]["ioengine"], "psync");
  EXPECT_EQ(rows[2]["cell"]["iodepth"], 4);
  EXPECT_EQ(rows[2]["iodepth_achieved"], 1);
  EXPECT_NE(rows[2]["iodepth_achieved_reason"], nullptr);
  EXPECT_EQ(rows[2]["cell"]["registered"], false);
  EXPECT_NE(rows[2]["store"]["registered_buffers_reason"], nullptr);
}

TEST_F(Sweep, ABufferedReadIsLabelledAndNeverPublishable) {
  const auto rows = Run({"--direct", "off", "--rw", "read", "-r", "5"});
  for (const Json& row : rows) {
    EXPECT_EQ(row["cell"]["direct"], false);
    EXPECT_EQ(row["cell"]["cache_mode"], "warm");
    EXPECT_EQ(row["publishable"], false);
    EXPECT_NE(row["reasons"].dump().find("not direct"), std::string::npos);
    if (row["bytes"]["proof"] == "sectors") {
      EXPECT_LT(row["bytes"]["proc"], row["bytes"]["app"]) << "the page cache answered";
    }
  }
}

TEST_F(Sweep, TheSpecsOwnOptionsWin) {
  store_ += "?iodepth=2&ioengine=psync&direct=off";
  const auto rows = Run({"--ioengine", "auto", "--rw", "write", "--order", "random"});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["cell"]["iodepth"], 2);
  EXPECT_EQ(rows[0]["cell"]["ioengine"], "psync");
  EXPECT_EQ(rows[0]["cell"]["direct"], false);
  EXPECT_EQ(rows[0]["cell"]["order"], "random");
}

TEST_F(Sweep, FioStandsBesideEachPass) {
  if (!FioVersion().ok()) KVBED_SKIP_OR_FAIL("fio is not installed");
  const auto rows =
      Run({"--fio", "--ioengine", "psync", "--bs", "4k", "--iodepth", "1", "--bytes", "16MiB"});
  for (const Json& row : rows) {
    const Json& ceiling = row["ceiling"];
    if (ceiling["gb_per_s"].is_null()) KVBED_SKIP_OR_FAIL(ceiling["gb_per_s_reason"].dump());
    EXPECT_GT(ceiling["efficiency"], 0);
    EXPECT_NE(ceiling["fio_job"].get<std::string>().find("ioengine=psync"), std::string::npos);
  }
}

TEST_F(Sweep, WritesTablesAndFilesBesideThem) {
  const std::string lines = dir_ / "rows.jsonl", file = dir_ / "rows.json";
  const auto run = [&](const char* format) {
    const CommandRun result =
        RunKvbed(Arguments({"-o", format, "--out", lines, "--json", file, "--rw", "read"}));
    EXPECT_EQ(result.exit_code, kExitOk) << result.err;
    return result.out;
  };
  const std::string text = run("text");
  EXPECT_NE(text.find("depth 1    depth 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nKnee\n"), std::string::npos) << text;
  const std::string markdown = run("md");
  EXPECT_NE(markdown.find("|        bs |   depth 1 |   depth 4 |\n"), std::string::npos)
      << markdown;
  const std::string csv = run("csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5) << "a head and four rows";
  EXPECT_EQ(Json::parse(run("json")).size(), 4u);
  EXPECT_EQ(Rows(Text(lines)).size(), 16u) << "four runs append";
  EXPECT_EQ(Json::parse(Text(file)).size(), 4u) << "the last one replaces";
}

TEST_F(Sweep, ADryRunSaysWhatItWouldTakeAndMakesNothing) {
  const CommandRun text = RunKvbed(Arguments({"--dry-run"}));
  EXPECT_EQ(text.exit_code, kExitOk) << text.err;
  EXPECT_NE(text.out.find("8 points in 4 groups"), std::string::npos) << text.out;
  const Json plan = RunKvbed(Arguments({"--dry-run", "-o", "json"})).Json();
  EXPECT_EQ(plan["points"], 8);
  EXPECT_EQ(plan["disk_bytes"], 1 << 20);
  EXPECT_EQ(plan["read_bytes"], 12 << 20) << "four points, each a warm-up and two passes";
  EXPECT_EQ(plan["written_bytes"], 13 << 20) << "and the file is filled";
  EXPECT_FALSE(fs::exists(dir_ / "a"));
}

TEST_F(Sweep, StrictEndsWith3WhenARowCantBePublished) {
  EXPECT_EQ(RunKvbed(Arguments({"--strict", "--rw", "read"})).exit_code, kExitNoVerdict);
}

TEST_F(Sweep, RefusesWhatItCantMeasure) {
  Fails({"sweep"}, kExitUsage, "--store slab:");
  Fails({"sweep", "--store", "memory:"}, kExitUsage, "memory: has none");
  Fails({"sweep", "--store", "slab:" + store_ + "#name"}, kExitUsage, "not a snapshot");
  Fails({"sweep", "--store", "slab:" + store_ + "?sync=none"}, kExitUsage, "fdatasync");
  Fails(Arguments({"--bs", "5000"}), kExitUsage, "multiple of 4096");
  Fails(Arguments({"--bs", "64k,,1m"}), kExitUsage, "--bs");
  Fails(Arguments({"--bs", "64k,64k"}), kExitUsage, "twice");
  Fails(Arguments({"--iodepth", "0"}), kExitUsage, "--iodepth");
  Fails(Arguments({"--iodepth", "99999"}), kExitUsage, "--iodepth");
  Fails(Arguments({"--ioengine", "io_urin"}), kExitUsage, "did you mean io_uring?");
  Fails(Arguments({"--direct", "on"}), kExitUsage, "--direct");
  Fails(Arguments({"--rw", "read,read"}), kExitUsage, "twice");
  Fails(Arguments({"--bytes", "lots"}), kExitUsage, "--bytes");
  Fails(Arguments({"--json", store_ + "/x.json"}), kExitUsage, "--json");
}

TEST_F(Sweep, TooLittleSpaceOrMemoryIsFoundBeforeTheFirstWrite) {
  Fails(Arguments({"--bytes", "900TiB"}), kExitUnusable, "are free");
  Fails(Arguments({"--bs", "1g", "--iodepth", "4096"}), kExitUnusable, "of memory");
  const CommandRun dry = RunKvbed(Arguments({"--bytes", "900TiB", "--dry-run"}));
  EXPECT_EQ(dry.exit_code, kExitUnusable);
  EXPECT_NE(dry.out.find("points"), std::string::npos);
}

TEST_F(Sweep, AFileThatMayNotGrowIsAnErrorThatLeavesNothing) {
  std::string line = "ulimit -f 512; KVBED";
  for (const std::string& argument : Arguments()) line += " '" + argument + "'";
  const CommandRun run = RunShell(line);
  EXPECT_EQ(run.exit_code, kExitUnusable) << run.err;
  EXPECT_NE(run.err.find("too large"), std::string::npos) << run.err;
  EXPECT_FALSE(fs::exists(dir_ / "a"));
}

TEST_F(Sweep, TmpfsIsNoDisk) {
  const std::string place =
      "/dev/shm/kvbed-sweep-test-" + fs::path(dir_.path()).filename().string();
  const auto type = FilesystemType("/dev/shm");
  if (!type.ok() || *type != "tmpfs") KVBED_SKIP_OR_FAIL("/dev/shm is no tmpfs");
  Fails({"sweep", "--store", "slab:" + place}, kExitUnusable, "tmpfs");
  const CommandRun run = RunKvbed({"sweep", "--store", "slab:" + place, "--direct", "off", "--bs",
                                   "64k", "--iodepth", "1", "--bytes", "1MiB", "-o", "jsonl"});
  EXPECT_EQ(run.exit_code, kExitOk) << run.err;
  for (const Json& row : Rows(run.out)) {
    EXPECT_EQ(row["store"]["fs_type"], "tmpfs");
    EXPECT_EQ(row["publishable"], false);
    EXPECT_NE(row["reasons"].dump().find("no disk was measured"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(place));
}

TEST_F(Sweep, AStoreThatIsThereStaysAsItIs) {
  ASSERT_EQ(RunKvbed({"bench", "--shape", "smollm2-135m", "-c", "16", "-r", "1", "--no-fio",
                      "--keep", "--direct", "optional", "--store", "slab:" + store_})
                .exit_code,
            kExitOk);
  const std::string before = RunKvbed({"store", "ls", "slab:" + store_}).out;
  ASSERT_EQ(RunKvbed(Arguments({"--rw", "write"})).exit_code, kExitOk);
  EXPECT_EQ(RunKvbed({"store", "ls", "slab:" + store_}).out, before);
  for (const auto& entry : fs::directory_iterator(store_)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("sweep-")) << entry.path();
  }
}

// Starts a long sweep, and signals it once it has written so many rows.
CommandRun RunSweepAndSignal(const std::vector<std::string>& arguments,
                             const std::string& rows_file, const std::string& signal) {
  std::string command = KVBED_COMMAND;
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  return RunCommand("sh",
                    {"-c", command + " & p=$!; for i in $(seq 2000); do [ -s " + rows_file +
                               " ] && break; sleep 0.01; done; kill -" + signal + " $p; wait $p"});
}

TEST_F(Sweep, AnInterruptKeepsTheFinishedGroupsAndRemovesTheFiles) {
  const std::string lines = dir_ / "rows.jsonl", file = dir_ / "rows.json";
  // A shell that isn't interactive starts background processes with SIGINT ignored.
  const CommandRun run = RunSweepAndSignal(
      Arguments({"--bs", "64k-4m+4k", "--rw", "read", "--out", lines, "--json", file}), lines,
      "TERM");
  EXPECT_EQ(run.exit_code, 128 + SIGTERM) << run.err;
  EXPECT_NE(run.err.find("groups of points are measured and kept"), std::string::npos) << run.err;
  const size_t rows = Rows(Text(lines)).size();
  EXPECT_GE(rows, 2u);
  EXPECT_EQ(rows % 2, 0u) << "whole groups";
  EXPECT_EQ(Json::parse(Text(file)).size(), rows);
  EXPECT_FALSE(fs::exists(dir_ / "a"));
}

TEST_F(Sweep, WhatAKilledOneLeftIsSweptByTheNext) {
  const std::string lines = dir_ / "rows.jsonl";
  const CommandRun run = RunSweepAndSignal(
      Arguments({"--bs", "64k-4m+4k", "--rw", "read", "--out", lines}), lines, "KILL");
  EXPECT_EQ(run.exit_code, 128 + SIGKILL);
  ASSERT_FALSE(fs::is_empty(store_));
  ASSERT_EQ(RunKvbed(Arguments({"--rw", "read"})).exit_code, kExitOk);
  EXPECT_TRUE(fs::is_empty(store_)) << "the folder was there, so it stays";
}

}  // namespace
}  // namespace kvbed
