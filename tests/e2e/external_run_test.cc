// The main job, and snapshot and resume in two processes, over stores outside kvbed.
#include <gtest/gtest.h>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

class ExternalRun : public testing::TestWithParam<bool> {
 protected:
  std::string Spec(const std::string& kind = "", const std::string& snapshot = "") const {
    if (GetParam()) {
      return "plugin:" KVBED_TEST_PLUGIN "?path=" + (folder_ / "store") +
             (kind.empty() ? "" : "&break=" + kind) + (snapshot.empty() ? "" : "#" + snapshot);
    }
    return "exec:" KVBED_TEST_EXEC_STORE " --dir " + (folder_ / "store") +
           (kind.empty() ? "" : " --break " + kind) + (snapshot.empty() ? "" : " #" + snapshot);
  }
  CommandRun Run(const std::string& spec, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"run", "-m", "toy:8m?kv_heads=2", "-o", "json", "-c", "46",
                                       "-n",  "9",  "--store",           spec};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunKvbed(arguments);
  }
  const TempDir folder_;
};
INSTANTIATE_TEST_SUITE_P(Adapters, ExternalRun, testing::Bool(), [](const auto& one) {
  return std::string(one.param ? "Plugin" : "Exec");
});

TEST_P(ExternalRun, RestoresBitForBitInTheSameAndInAFreshProcess) {
  for (const char* how : {"--replace", "--fresh-process"}) {
    const CommandRun run = Run(Spec(), {"--name", how + 2, how});
    ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_EQ(run.Json().at("verdict").at("bytes").at("differing_bits"), 0);
  }
}

TEST_P(ExternalRun, WrongBytesAreFoundAndFailuresNamed) {
  for (const char* kind : {"flip", "foreign"}) {
    const CommandRun run = Run(Spec(kind), {"--name", kind});
    EXPECT_EQ(run.exit_code, 1) << kind << run.out << run.err;
    EXPECT_FALSE(run.Json().at("verdict").at("bytes").at("findings").empty()) << kind;
  }
  const CommandRun crash = Run(Spec("crash_put"), {"--name", "c"});
  EXPECT_EQ(crash.exit_code, 4) << crash.out;
  EXPECT_NE(crash.err.find("was killed by signal 11"), std::string::npos) << crash.err;
}

TEST_P(ExternalRun, SnapshotAndResumeAreTwoProcesses) {
  const CommandRun taken =
      RunKvbed({"snapshot", "-m", "toy:8m", "--prompt-ids", "5,70,31,300,12", "-n", "8", "--store",
                Spec(), "--name", "s", "--ledger", folder_ / "l.json", "--expect", "4"});
  ASSERT_EQ(taken.exit_code, 0) << taken.err;
  const CommandRun resumed = RunKvbed({"resume", "-m", "toy:8m", "--store", Spec("", "s"), "-n",
                                       "4", "--ledger", folder_ / "l.json", "-o", "json"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(resumed.Json().at("verdict").at("bytes").at("status"), "equal");
  EXPECT_EQ(RunKvbed({"store", "info", Spec("", "s"), "-o", "json"}).exit_code, 0);
  EXPECT_EQ(RunKvbed({"store", "rm", Spec("", "s")}).exit_code, 0);
  EXPECT_EQ(RunKvbed({"store", "ls", Spec()}).out, "no snapshot\n");
}

TEST(ExternalRunRefusals, AStoreThatKeepsNoManifestsNeedsAFolderAndALossyOneIsRefused) {
  const TempDir folder;
  const auto run = [&](const std::string& spec) {
    return RunKvbed({"run", "-m", "toy:8m", "-c", "20", "-n", "4", "--store", spec});
  };
  const CommandRun none = run("plugin:" KVBED_TEST_PLUGIN_BARE "?path=" + (folder / "a"));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.err.find("keeps no manifests"), std::string::npos) << none.err;
  const CommandRun given = run("plugin:" KVBED_TEST_PLUGIN_BARE "?path=" + (folder / "a") +
                               "&manifests=" + (folder / "m"));
  EXPECT_EQ(given.exit_code, 0) << given.err;
  const CommandRun lossy = run("plugin:" KVBED_TEST_PLUGIN_LOSSY "?path=" + (folder / "b"));
  EXPECT_EQ(lossy.exit_code, 2);
  EXPECT_NE(lossy.err.find("is lossy, by its own word"), std::string::npos) << lossy.err;
}

}  // namespace
}  // namespace kvbed
