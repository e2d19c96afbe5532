// The command line as a user meets it: help, versions, and what it says of mistakes.
#include <gtest/gtest.h>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

struct Mistake {
  std::vector<std::string> arguments;
  int exit_code;
  std::string says;
};

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
        Mistake{{"tokenize", "-m", "toy:8m", "--prompt", "x"}, 2, "tokenizer"}));

TEST(Help, NamesEachCommandAndExitCode) {
  const CommandRun run = RunKvbed({"--help"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* command :
       {"run", "snapshot", "resume", "generate", "tokenize", "store", "bench", "doctor"}) {
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

TEST(Install, TheInstalledCommandRuns) {
  const TempDir prefix;
  const CommandRun install =
      RunCommand(KVBED_CMAKE, {"--install", KVBED_BUILD_DIR, "--prefix", prefix.path()});
  ASSERT_EQ(install.exit_code, 0) << install.out << install.err;
  const CommandRun run = RunCommand(prefix / "bin/kvbed", {"--version"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(run.out.starts_with("kvbed ")) << run.out;
}

TEST(Doctor, SaysWhatAFolderAllows) {
  const TempDir folder;
  const CommandRun run = RunKvbed({"doctor", folder.path(), "-o", "json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto doctor = run.Json();
  EXPECT_GE(doctor.at("checks").size(), 8);
}

}  // namespace
}  // namespace kvbed
