// `kvbed store check` as a user runs it: what it says, how it ends, what --repair drops, and that
// nothing else changes. The other store commands end the same way on what is damaged.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/json_names.h"
#include "tests/verify/stored_snapshots.h"
#include "tools/exit_code.h"

namespace kvbed {
namespace {

class StoreCheckCommand : public StoredSnapshots {
 protected:
  std::string Spec(const std::string& snapshot = "") const {
    std::string text = GetParam().spec;
    text.replace(text.find("{}"), 2, folder_);
    return text + (snapshot.empty() ? "" : "#" + snapshot);
  }
  CommandRun Check(const std::vector<std::string>& more = {},
                   const std::string& snapshot = "") const {
    std::vector<std::string> arguments{"store", "check", Spec(snapshot)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunKvbed(arguments);
  }
  CommandRun Run(const char* command, const std::string& snapshot = "") const {
    return RunKvbed({"store", command, Spec(snapshot)});
  }
  static bool Says(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_P(StoreCheckCommand, SaysThatAWholeStoreIsWholeAndChangesNothing) {
  const auto before = ImageOf(folder_);
  const CommandRun text = Check();
  EXPECT_EQ(text.exit_code, kExitOk) << text.err;
  EXPECT_EQ(text.err, "");
  EXPECT_EQ(text.out.substr(0, 46), "checked       3 snapshots, 7 records, 98,304 b") << text.out;
  EXPECT_TRUE(Says(text.out, "GB/s")) << text.out;
  EXPECT_TRUE(Says(text.out, "\nresult        whole\n")) << text.out;
  const auto json = Check({"-o", "json"}).Json();
  EXPECT_EQ(json.at("schema"), "kvbed-store/1");
  EXPECT_EQ(json.at("status"), "ok");
  EXPECT_TRUE(
      HasNames(json, {"snapshots", "records", "free_bytes", "findings", "damaged", "missing",
                      "unreferenced", "temporary", "unknown", "unread", "repair", "check"}));
  EXPECT_TRUE(HasNames(json.at("check"), {"records", "read_bytes", "wall_ns", "verify_ns",
                                          "gb_per_s", "unreferenced_bytes"}));
  EXPECT_TRUE(NullsHaveReasons(json.at("check")));
  EXPECT_EQ(json.at("check").at("read_bytes"), 98'304);
  EXPECT_EQ(json.at("snapshots").size(), 3);
  EXPECT_EQ(json.at("snapshots").at(0).at("state"), "whole");
  const CommandRun repair = Check({"--repair"});
  EXPECT_EQ(repair.exit_code, kExitOk) << repair.err;
  EXPECT_TRUE(Says(repair.out, "nothing to drop")) << repair.out;
  EXPECT_TRUE(ImageOf(folder_) == before);
}

TEST_P(StoreCheckCommand, NamesDamageAndRepairDropsIt) {
  FlipInRecord("a", 2, 4096 + 50);  // the tail that only a has
  const auto before = ImageOf(folder_);
  const CommandRun text = Check();
  EXPECT_EQ(text.exit_code, kExitFailedCheck) << text.out << text.err;
  EXPECT_EQ(text.out.substr(0, 56), "damaged       snapshot a, block 2 (tokens 32 to 39): " +
                                        std::string(GetParam().own_check ? "sto" : "pay"))
      << text.out;
  EXPECT_TRUE(Says(text.out, "1 of 3 snapshots damaged; `kvbed store check")) << text.out;
  const auto found = Check({"-o", "json"}).Json();
  EXPECT_EQ(found.at("status"), "failed");
  EXPECT_EQ(found.at("findings").size(), 1);
  EXPECT_EQ(found.at("findings").at(0).at("snapshots").at(0), "a");
  EXPECT_EQ(found.at("damaged").size(), 1);
  EXPECT_EQ(Check({}, "b").exit_code, kExitOk);
  EXPECT_EQ(Check({}, "a").exit_code, kExitFailedCheck);
  EXPECT_EQ(Check({"--repair"}, "b").exit_code, kExitOk);
  EXPECT_TRUE(ImageOf(folder_) == before);

  const CommandRun repair = Check({"--repair", "-o", "json"});
  EXPECT_EQ(repair.exit_code, kExitFailedCheck) << repair.err;
  const auto done = repair.Json().at("repair");
  ASSERT_EQ(done.at("dropped").size(), 1);
  EXPECT_EQ(done.at("dropped").at(0).at("name"), "a");
  EXPECT_EQ(done.at("freed_records"), 1);
  EXPECT_EQ(done.at("freed_bytes"), 8192);
  const CommandRun after = Check();
  EXPECT_EQ(after.exit_code, kExitOk) << after.out;
  EXPECT_TRUE(Says(after.out, "2 snapshots, 6 records")) << after.out;
}

TEST_P(StoreCheckCommand, RepairSaysInTextWhatItDroppedAndWhatCameBack) {
  FlipInRecord("wide", 0, 0);
  const CommandRun repair = Check({"--repair"});
  EXPECT_EQ(repair.exit_code, kExitFailedCheck);
  EXPECT_TRUE(Says(repair.out, "\ndropped       snapshot wide: 1 of 2 records damaged\n"))
      << repair.out;
  EXPECT_TRUE(Says(repair.out, "1 snapshot dropped, 0 leftovers swept; 2 records of 57,344 bytes"))
      << repair.out;
  EXPECT_EQ(Check().exit_code, kExitOk);
}

TEST_P(StoreCheckCommand, WhatIsOnlyLeftOverIsNoDamageAndUnknownFilesStay) {
  std::ofstream(TemporaryPath(folder_ + "/STORE")) << "abc";
  std::ofstream(folder_ + "/notes.txt") << "12345";
  const CommandRun text = Check();
  EXPECT_EQ(text.exit_code, kExitOk) << text.out;
  EXPECT_TRUE(Says(text.out, "temporary     " + folder_ + "/STORE.")) << text.out;
  EXPECT_TRUE(Says(text.out, "unknown       " + folder_ +
                                 "/notes.txt, 5 bytes: not the store's, "
                                 "left alone\n"))
      << text.out;
  EXPECT_TRUE(Says(text.out, "result        whole\n")) << text.out;
  const CommandRun repair = Check({"--repair", "-o", "json"});
  EXPECT_EQ(repair.exit_code, kExitOk) << repair.err;
  EXPECT_EQ(repair.Json().at("repair").at("swept"), 1);
  const auto after = Check({"-o", "json"}).Json();
  EXPECT_TRUE(after.at("temporary").empty());
  EXPECT_EQ(after.at("unknown").size(), 1);
}

TEST_P(StoreCheckCommand, AStoreInUseOrASnapshotThatIsntThereIsFour) {
  EXPECT_EQ(Check({}, "nope").exit_code, kExitUnusable);
  const CommandRun missing = Check({}, "nope");
  EXPECT_TRUE(Says(missing.err, "its snapshots are: a b wide")) << missing.err;
  if (!GetParam().manifests_are_files || GetParam().slots) {
    const auto writer = Open(StoreAccess::kWrite);
    EXPECT_EQ(Check().exit_code, kExitUnusable);
  }
  EXPECT_EQ(RunKvbed({"store", "check", "memory:"}).exit_code, kExitUsage);
}

TEST_P(StoreCheckCommand, ARepairThatIsKeptOutSaysWhatItFoundAndWhy) {
  if (!GetParam().slots) return;
  FlipInRecord("a", 2, 4096);
  const auto reader = Open(StoreAccess::kRead);
  const CommandRun run = Check({"--repair"});
  EXPECT_EQ(run.exit_code, kExitFailedCheck) << run.out;
  EXPECT_TRUE(Says(run.out, "damaged       snapshot a, block 2")) << run.out;
  EXPECT_TRUE(Says(run.out, "\nfailed        ") && Says(run.out, "in use by")) << run.out;
  EXPECT_FALSE(Says(run.out, "dropped")) << run.out;
  EXPECT_OK(reader->ReadManifest("a"));
}

// One that is damaged is a failed check, whatever else can't be read.
TEST_P(StoreCheckCommand, DamageIsOneForEveryStoreCommand) {
  if (!GetParam().manifests_are_files) return;  // RocksDB checks its own blocks
  Flip(ManifestFile("a"), 8);
  for (const char* command : {"ls", "info", "check"}) {
    EXPECT_EQ(Run(command).exit_code, kExitUnusable) << command;
  }
  Flip(ManifestFile("b"), 70);
  for (const char* command : {"ls", "info", "check"}) {
    const CommandRun run = Run(command);
    EXPECT_EQ(run.exit_code, kExitFailedCheck) << command;
    EXPECT_TRUE(Says(run.out, "manifest checksum")) << run.out;
  }
  // The other version's stays.
  EXPECT_EQ(Check({"--repair"}).exit_code, kExitFailedCheck);
  EXPECT_EQ(Run("ls").exit_code, kExitUnusable);
  EXPECT_EQ(Run("rm", "a").exit_code, kExitUnusable);
  Flip(ManifestFile("a"), 8);
  EXPECT_EQ(Run("ls").exit_code, kExitOk);
  // A name that leads nowhere.
  std::filesystem::create_symlink("/no/such/manifest", ManifestFile("x"));
  EXPECT_EQ(Run("ls").exit_code, kExitFailedCheck);
  EXPECT_EQ(Run("check").exit_code, kExitFailedCheck);
  EXPECT_EQ(Check({"--repair"}).exit_code, kExitFailedCheck);
  EXPECT_EQ(Check().exit_code, kExitOk);
}

TEST_P(StoreCheckCommand, AStoreThatIsDamagedItselfIsOneForEveryStoreCommand) {
  Flip(folder_ + "/STORE", 40);
  for (const char* command : {"ls", "info", "check"}) {
    const CommandRun run = Run(command);
    EXPECT_EQ(run.exit_code, kExitFailedCheck) << command << run.err;
    EXPECT_TRUE(Says(run.err, "put it back from a copy")) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
  EXPECT_EQ(Run("rm", "a").exit_code, kExitFailedCheck);
  Flip(folder_ + "/STORE", 40);
  EXPECT_EQ(Run("ls").exit_code, kExitOk);
}

INSTANTIATE_TEST_SUITE_P(Kept, StoreCheckCommand, testing::ValuesIn(KeptStores()),
                         [](const auto& one) { return std::string(one.param.name); });

// The largest resident size of a store command, in bytes.
int64_t PeakOf(const char* command, const std::string& spec) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(STDOUT_FILENO);
    ::open("/dev/null", O_WRONLY);
    ::execl(KVBED_COMMAND, KVBED_COMMAND, "store", command, spec.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(pid, &status, 0, &usage), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << spec;
  return int64_t{usage.ru_maxrss} * 1024;
}

// Four snapshots of sixteen records of 2 MiB. Made by a process of its own: what this one has ever
// held is part of what a command that it forks is said to have held.
void KeepSnapshots(const std::string& spec) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const KvGeometry geometry = {.layers = 32, .kv_heads = 8, .head_dim = 128, .block_tokens = 16};
    auto store = OpenStore(ParseStoreSpec(spec).value(), {.access = StoreAccess::kCreate});
    if (!store.ok()) ::_exit(1);
    for (uint64_t id = 1; id <= 4; ++id) {
      GrowingSequence sequence(geometry, id);
      sequence.GrowByZeroes(uint64_t{16} * geometry.block_tokens);
      sequence.Snapshot(**store, "s" + std::to_string(id));
    }
    (*store).reset();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_EQ(status, 0) << spec;
}

TEST(StoreCheckMemory, IsBoundedWhateverTheStoreHolds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own memory hides the command's";
#endif
  int64_t largest = 0;
  for (const KeptStore& kept : KeptStores()) {
    const TempDir dir;
    std::string spec = kept.spec;
    spec.replace(spec.find("{}"), 2, dir / "store");
    KeepSnapshots(spec);
    if (HasFatalFailure()) return;
    const int64_t more = PeakOf("check", spec) - PeakOf("ls", spec);
    // RocksDB has tables and buffers of its own.
    const int64_t most = spec.starts_with("rocksdb:") ? int64_t{80} << 20 : int64_t{64} << 20;
    EXPECT_LE(more, most) << spec;
    largest = std::max(largest, more);
  }
  EXPECT_GT(largest, int64_t{1} << 20) << "the measure sees records at all";
}

}  // namespace
}  // namespace kvbed
