// Stores outside kvbed from the command line: looked into, and refused by name where a command
// can't use them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

TEST(ExternalStores, AreLookedInto) {
  const TempDir folder;
  std::filesystem::create_directory(folder / "a");
  for (const std::string& spec : {"plugin:" KVBED_TEST_PLUGIN "?path=" + (folder / "a"),
                                  "plugin:" KVBED_EXAMPLE_PLUGIN "?path=" + (folder / "a"),
                                  "exec:" KVBED_TEST_EXEC_STORE " --dir " + (folder / "a"),
                                  "exec:" KVBED_EXAMPLE_EXEC_STORE " --dir " + (folder / "a")}) {
    const CommandRun info = RunKvbed({"store", "info", spec});
    EXPECT_EQ(info.exit_code, 0) << info.err;
    EXPECT_NE(info.out.find("in a process of its own"), std::string::npos) << info.out;
    EXPECT_NE(info.out.find("the store's own affair"), std::string::npos) << info.out;
    EXPECT_EQ(RunKvbed({"store", "ls", spec}).out, "no snapshot\n");
    EXPECT_EQ(RunKvbed({"store", "info", spec, "-o", "json"}).Json().at("store").at("direct"),
              false);
  }
}

TEST(ExternalStores, WhatFailsIsOneLine) {
  const TempDir folder;
  const CommandRun hang = RunKvbed({"store", "info",
                                    "exec:timeout=0.5 " KVBED_TEST_EXEC_STORE " --dir " +
                                        (folder / "a") + " --break hang_hello"});
  EXPECT_EQ(hang.exit_code, 4);
  EXPECT_NE(hang.err.find("in hello (call 1) after"), std::string::npos) << hang.err;
  EXPECT_EQ(std::count(hang.err.begin(), hang.err.end(), '\n'), 1) << hang.err;
  const CommandRun missing = RunKvbed({"store", "info", "plugin:/nowhere/x.so"});
  EXPECT_EQ(missing.exit_code, 4);
  EXPECT_NE(missing.err.find("/nowhere/x.so: cannot open shared object"), std::string::npos)
      << missing.err;
}

TEST(ExternalStores, ThatArentFilesOfOursAreNotBenchmarked) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"bench", "--shape", "llama3-8b", "-c", "1k", "--store", "plugin:./x.so"},
           {"sweep", "--store", "exec:python3 x.py"}}) {
    const CommandRun run = RunKvbed(command);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_NE(run.err.find(command[0] + " measures kvbed's own stores"), std::string::npos)
        << run.err;
  }
}

TEST(ExternalStores, AHostWithoutItsKvbedEnds) {
  EXPECT_EQ(RunShell("KVBED plugin-host /nowhere/x.so < /dev/null").exit_code, 0);
  // An author may talk to a plug-in by hand.
  const CommandRun run = RunShell(
      "echo '{\"call\":1,\"verb\":\"hello\",\"window\":{}}' | KVBED plugin-host /nowhere/x.so");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_NE(run.out.find("\"status\":\"io_error\""), std::string::npos) << run.out;
}

}  // namespace
}  // namespace kvbed
