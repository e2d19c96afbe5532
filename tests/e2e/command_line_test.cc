// The command line as a user meets it: help, versions, and what it says of mistakes.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"
#include "tools/device_counters.h"

namespace kvbed {
namespace {

struct Mistake {
  std::vector<std::string> arguments;
  int exit_code;
  std::string says;
};

// What ctest calls it.
void PrintTo(const Mistake& mistake, std::ostream* out) {
  for (const std::string& argument : mistake.arguments) {
    for (char c : argument + " ") *out << (c >= ' ' && c <= '~' ? c : '?');
  }
}

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, GetOneLineAndTheDocumentedExitCode) {
  const CommandRun run = RunKvbed(GetParam().arguments);
  EXPECT_EQ(run.exit_code, GetParam().exit_code) << run.out << run.err;
  EXPECT_NE(run.err.find(GetParam().says), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_EQ(run.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, Mistakes,
    testing::Values(
        Mistake{{"resme"}, 2, "did you mean resume?"},
        Mistake{{"run", "--modle", "x"}, 2, "did you mean --model?"},
        Mistake{{"run"}, 2, "--model"},
        Mistake{{"run", "-m", "toy:8m", "-n", "0"}, 2, "token count"},
        Mistake{{"run", "-m", "toy:8m", "-c", "-4"}, 2, "token count"},
        Mistake{{"run", "-m", "toy:8m", "--dtype", "fp16"}, 2, "bf16, fp32"},
        Mistake{{"run", "-m", "toy:8m", "--block-tokens", "0"}, 2, "1 to"},
        Mistake{{"run", "-m", "toy:8m", "--store", "slap:/x"}, 2, "slab"},
        Mistake{{"run", "-m", "toy:8m", "--store", "memory:", "--fresh-process"}, 2, "memory:"},
        Mistake{{"run", "-m", "toy:8m", "--ioengine", "iouring"}, 2, "did you mean io_uring?"},
        Mistake{{"run", "-m", "toy:8m", "--inject", "flop"}, 2, "flip"},
        Mistake{{"run", "-m", "/no/such/model"}, 4, "/no/such/model"},
        Mistake{{"run", "-m", "toy:9m"}, 2, "toy:8m"},
        Mistake{{"store", "ls", "slab:/no/such/store"}, 4, "/no/such/store"},
        Mistake{{"store", "rm", "memory:#x"}, 2, "memory:"},
        Mistake{{"doctor", "/no/such/folder"}, 4, "/no/such/folder"},
        Mistake{{"doctor", "/etc/passwd"}, 4, "no directory"}, Mistake{{"doctor", ""}, 2, "empty"},
        Mistake{{"doctor", "/proc"}, 4, "/proc"},
        Mistake{{"run", "-m", "toy:8m", "--name", "x"}, 2, "--store"},
        Mistake{{"bench", "--shape", "/dev/zero", "--store", "memory:"}, 4, "no regular file"},
        Mistake{{"run", "-m", "toy:8m", "--json", ""}, 2, "--json needs a file's name"},
        Mistake{{"run", "-m", "toy:8m", "--json", "-"}, 2, "-o json"},
        Mistake{{"run", "-m", "toy:8m", "--json", "/no/such/f.json"}, 4, "make it first"},
        Mistake{{"run", "-m", "toy:8m", "-o", "csv"}, 2, "-o md and csv"},
        Mistake{{"run", "-m", "toy:8m", "-c", "900000m"}, 4, "GiB of memory"},
        Mistake{{"run", "-m", "toy:8m", "-n", "1000000m"}, 4, "GiB of memory"},
        Mistake{{"run", "-m", "toy:8m", "--pool-bytes", "9"}, 2, "give at least"},
        Mistake{{"run", "-m", "toy:8m", "--pool-bytes", "900TiB"}, 4, "GiB of memory"},
        Mistake{{"run", "-m", "toy:8m", "--snapshot-at", "-1"}, 2, "write 0, 4096"},
        Mistake{{"run", "-m", "/no/\x1b[31m/model"}, 4, "/no/\\x1b[31m/model"},
        Mistake{{"bench", "--shape", "llama3-8b", "--store", "slab:/x", "--out", "/no/such/f"},
                4,
                "--out /no/such/f"},
        Mistake{{"bench", "--shape", "llama3-8b", "--store", "memory:", "-c", "1k,900000m"},
                4,
                "GiB of memory"},
        Mistake{{"resume", "-m", "toy:8m", "--store", "slab:/x#a", "--replace"}, 2, "--save"},
        Mistake{{"store", "ls", "slab:/no/such/store#s1"}, 2, "leave #NAME out"},
        Mistake{{"store"}, 2, "ls, info, rm"},
        Mistake{{"tokenize", "-m", "toy:8m", "--prompt", "x"}, 2, "tokenizer"}));

TEST(StandardStreams, ThatCanNotBeWrittenChangeNoExitCode) {
  EXPECT_EQ(RunShell("KVBED run -m toy:9m 2>&-").exit_code, 2);
  EXPECT_EQ(RunShell("KVBED run -m toy:9m 2>/dev/full").exit_code, 2);
  EXPECT_EQ(RunShell("KVBED resme >&- 2>&- <&-").exit_code, 2);
}

TEST(StandardStreams, ALostResultIsAnError) {
  for (const char* command : {"--help", "--version", "doctor ."}) {
    const CommandRun full = RunShell(std::string("KVBED ") + command + " >/dev/full");
    EXPECT_EQ(full.exit_code, 4) << command;
    EXPECT_NE(full.err.find("standard output"), std::string::npos) << full.err;
    EXPECT_EQ(RunShell(std::string("KVBED ") + command + " >&-").exit_code, 4) << command;
  }
}

TEST(StandardStreams, AJsonFileIsWrittenThoughNobodyReadsTheText) {
  const TempDir folder;
  const CommandRun run =
      RunShell("KVBED doctor . --json '" + (folder / "out.json") + "' >/dev/full");
  EXPECT_EQ(run.exit_code, 4);
  std::ifstream in(folder / "out.json");
  EXPECT_TRUE(nlohmann::json::accept(in));
}

TEST(Help, NamesEachCommandAndExitCode) {
  const CommandRun run = RunKvbed({"--help"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* command :
       {"run", "snapshot", "resume", "generate", "tokenize", "store", "bench", "sweep", "doctor"}) {
    EXPECT_NE(run.out.find(command), std::string::npos) << command;
    const CommandRun help = RunKvbed({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_FALSE(help.out.empty());
  }
}

TEST(Version, NamesLibraries) {
  const CommandRun run = RunKvbed({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* name : {"kvbed", "liburing", "xxHash", "libtorch"}) {
    EXPECT_NE(run.out.find(name), std::string::npos) << name;
  }
}

TEST(Outputs, NeverTakeThePlaceOfWhatTheCommandUses) {
  const TempDir folder;
  const std::string prompt = folder / "p.txt";
  std::ofstream(prompt) << "the rain";
  const std::string model = KVBED_GOLDEN_DIR "/model/gqa_8_2";
  for (const std::string& place :
       {prompt, model + "/config.json", model + "/tokenizer.json", model + "/model.safetensors"}) {
    const CommandRun run = RunKvbed({"tokenize", "-m", model, "-f", prompt, "--json", place});
    EXPECT_EQ(run.exit_code, 2) << place;
    EXPECT_NE(run.err.find("which this command uses"), std::string::npos) << run.err;
  }
  const CommandRun twice =
      RunKvbed({"snapshot", "-m", "toy:8m", "--store", "slab:" + (folder / "kv"), "--name", "s",
                "--ledger", folder / "x.json", "--json", folder / "x.json"});
  EXPECT_EQ(twice.exit_code, 2);
}

TEST(Room, IsLookedForBeforeTheWork) {
  const TempDir folder;
  const CommandRun run = RunKvbed({"run", "-m", "toy:8m", "-c", "100", "--store",
                                   "slab:" + (folder / "kv"), "--capacity", "100k"});
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_NE(run.err.find("has room for"), std::string::npos) << run.err;
}

TEST(Install, TheInstalledCommandRuns) {
  const TempDir prefix;
  const CommandRun install =
      RunCommand(KVBED_CMAKE, {"--install", KVBED_BUILD_DIR, "--prefix", prefix.path()});
  ASSERT_EQ(install.exit_code, 0) << install.out << install.err;
  const CommandRun run = RunCommand(prefix / "bin/kvbed", {"--version"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(run.out.starts_with("kvbed ")) << run.out;
  // What a plug-in's author needs, as C, and the plug-in that docs show.
  const CommandRun compiler = RunShell("cc -std=c11 -Wall -Wextra -Werror -shared -fPIC -I '" +
                                       (prefix / "include") + "' -o '" + (prefix / "x.so") +
                                       "' '" KVBED_SOURCE_DIR "/docs/examples/directory_store.c'");
  EXPECT_EQ(compiler.exit_code, 0) << compiler.err;
  const CommandRun store =
      RunCommand(prefix / "bin/kvbed",
                 {"store", "info", "plugin:" + (prefix / "x.so") + "?path=" + prefix.path()});
  EXPECT_EQ(store.exit_code, 0) << store.err;
}

TEST(Doctor, SaysWhatAFolderAllows) {
  const TempDir folder;
  const CommandRun run = RunKvbed({"doctor", folder.path(), "-o", "json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto doctor = run.Json();
  EXPECT_GE(doctor.at("checks").size(), 8);
}

TEST(Doctor, NamesTheProofAndItsDisksOrWhyThereIsNone) {
  const TempDir folder;
  const auto proof_of = [](const std::string& path) {
    const auto doctor = RunKvbed({"doctor", path, "-o", "json"}).Json();
    for (const auto& check : doctor.at("checks")) {
      if (check["what"] == "device proof") return check["found"].get<std::string>();
    }
    return std::string();
  };
  const DeviceCounters counters = DeviceCounters::For(folder.path(), {});
  const std::string found = proof_of(folder.path());
  if (counters.source() == CounterSource::kUnavailable) {
    EXPECT_NE(found.find(counters.reason()), std::string::npos) << found;
  } else {
    EXPECT_NE(found.find(CounterSourceName(counters.source())), std::string::npos) << found;
    for (const std::string& device : counters.devices()) {
      EXPECT_NE(found.find(device), std::string::npos) << found;
    }
  }
  if (DeviceCounters::For("/dev/shm", {}).memory() == "tmpfs") {
    EXPECT_NE(proof_of("/dev/shm").find("memory and not a disk"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvbed
