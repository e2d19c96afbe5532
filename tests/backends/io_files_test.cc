// Whole small files over the seam: publishing keeps what was there when it fails.
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/backends/io_engines.h"

namespace kvbed {
namespace {

class IoFilesTest : public ::testing::Test {
 protected:
  // The faulty Io over this machine's.
  std::unique_ptr<Io> Faulty(FaultDevice& device) {
    return MakeFaultyIo(OpenIo(IoEngine::kAuto).value(), device);
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const Result<std::vector<DirectoryEntry>> entries = io_->List(folder_.path());
    for (const DirectoryEntry& entry : *entries) {
      names.push_back(entry.name);
    }
    return names;
  }

  TempDir folder_;
  std::unique_ptr<Io> io_ = OpenIo(IoEngine::kAuto).value();
  const std::string path_ = folder_ / "m";
};

TEST_F(IoFilesTest, ReadsWhatWasPublished) {
  std::string contents;
  for (int i = 0; i < 5000; ++i) contents += std::to_string(i);
  ASSERT_OK(PublishFile(*io_, path_, AsBytes(contents), RenameMode::kNoReplace));
  EXPECT_EQ(ReadFile(*io_, path_, contents.size()).value(), contents);
  ASSERT_OK(PublishFile(*io_, path_, AsBytes(""), RenameMode::kReplace));
  EXPECT_EQ(ReadFile(*io_, path_, 0).value(), "");
  EXPECT_EQ(Names(), std::vector<std::string>{"m"});
}

TEST_F(IoFilesTest, ReadingTellsAbsentAndTooLongApart) {
  EXPECT_TRUE(FailsWith(ReadFile(*io_, path_, 10).status(), StatusCode::kNotFound, path_));
  ASSERT_OK(PublishFile(*io_, path_, AsBytes("12345"), RenameMode::kNoReplace));
  EXPECT_TRUE(FailsWith(ReadFile(*io_, path_, 4).status(), StatusCode::kCorruption, "5 bytes"));
  EXPECT_OK(ReadFile(*io_, path_, 5));
}

TEST_F(IoFilesTest, AnExistingNameIsKeptUnlessReplacingWasAskedFor) {
  ASSERT_OK(PublishFile(*io_, path_, AsBytes("old"), RenameMode::kNoReplace));
  EXPECT_TRUE(FailsWith(PublishFile(*io_, path_, AsBytes("new"), RenameMode::kNoReplace),
                        StatusCode::kInvalidArgument, "exists"));
  EXPECT_EQ(Contents(path_), "old");
  EXPECT_EQ(Names(), std::vector<std::string>{"m"});
}

TEST_F(IoFilesTest, PublishesInTheOrderThatSurvives) {
  FaultDevice device;
  const auto io = Faulty(device);
  ASSERT_OK(PublishFile(*io, path_, AsBytes("abc"), RenameMode::kReplace));
  const std::vector<std::string> trace = device.Trace();
  ASSERT_EQ(trace.size(), 5u) << ::testing::PrintToString(trace);
  EXPECT_EQ(trace[0].rfind("create m.", 0), 0u) << trace[0];
  EXPECT_EQ(trace[1].rfind("write m.", 0), 0u) << trace[1];
  EXPECT_EQ(trace[2].rfind("fsync m.", 0), 0u) << trace[2];
  EXPECT_EQ(trace[3].rfind("rename m.", 0), 0u) << trace[3];
  EXPECT_EQ(trace[4].rfind("sync_dir ", 0), 0u) << trace[4];
}

// Each step fails in turn, each way that it can.
TEST_F(IoFilesTest, AFailureAnywhereLeavesTheOldFileAndNoTemporary) {
  ASSERT_OK(PublishFile(*io_, path_, AsBytes("old"), RenameMode::kNoReplace));
  struct Case {
    Fault fault;
    StatusCode code;
  };
  const Case cases[] = {
      {{.kind = FaultKind::kEio, .target = FaultTarget::kOpen}, StatusCode::kIoError},
      {{.kind = FaultKind::kEnospc, .target = FaultTarget::kOpen}, StatusCode::kOutOfSpace},
      {{.kind = FaultKind::kEio, .target = FaultTarget::kWrite}, StatusCode::kIoError},
      {{.kind = FaultKind::kEnospc, .target = FaultTarget::kWrite}, StatusCode::kOutOfSpace},
      {{.kind = FaultKind::kFailedSync}, StatusCode::kIoError},
      {{.kind = FaultKind::kEio, .target = FaultTarget::kRename}, StatusCode::kIoError},
  };
  for (const Case& c : cases) {
    FaultDevice device({.faults = {c.fault}});
    const auto io = Faulty(device);
    const Status status = PublishFile(*io, path_, AsBytes("new"), RenameMode::kReplace);
    EXPECT_TRUE(FailsWith(status, c.code, path_)) << FaultKindName(c.fault.kind);
    EXPECT_EQ(device.struck(), 1u);
    EXPECT_EQ(Contents(path_), "old");
    EXPECT_EQ(Names(), std::vector<std::string>{"m"});
    EXPECT_OK(PublishFile(*io, folder_ / "other", AsBytes("x"), RenameMode::kReplace));
    ASSERT_OK(io_->Unlink(folder_ / "other"));
  }
}

TEST_F(IoFilesTest, AFailedSyncOfTheDirectorySaysThatTheNewFileMayGo) {
  ASSERT_OK(PublishFile(*io_, path_, AsBytes("old"), RenameMode::kNoReplace));
  FaultDevice device({.faults = {{.kind = FaultKind::kFailedSync, .first = 1}}});
  const auto io = Faulty(device);
  EXPECT_TRUE(FailsWith(PublishFile(*io, path_, AsBytes("new"), RenameMode::kReplace),
                        StatusCode::kIoError, "power cut"));
  EXPECT_EQ(Contents(path_), "new");
  device.PowerCut();
  EXPECT_EQ(Contents(path_), "old");
}

// After kill -9 at any step the old file or the new one is there, whole.
TEST_F(IoFilesTest, KilledAtAnyStepTheFileIsTheOldOneOrTheNewOne) {
  const std::string old_contents(6000, 'o');
  const std::string new_contents(9000, 'n');
  uint64_t steps = 1;
  bool saw_old = false;
  bool saw_new = false;
  for (uint64_t step = 0; step <= steps; ++step) {
    ASSERT_OK(PublishFile(*io_, path_, AsBytes(old_contents), RenameMode::kReplace));
    FaultDevice device;
    const auto io = Faulty(device);
    device.CrashAfter(step);
    const Status status = PublishFile(*io, path_, AsBytes(new_contents), RenameMode::kReplace);
    if (!status.ok()) steps = step + 1;
    const std::string contents = Contents(path_);
    EXPECT_TRUE(contents == old_contents || contents == new_contents) << step;
    (contents == old_contents ? saw_old : saw_new) = true;
    for (const std::string& name : Names()) {
      EXPECT_TRUE(name == "m" || IsTemporaryPath(name)) << name;
    }
  }
  EXPECT_TRUE(saw_old);
  EXPECT_TRUE(saw_new);
}

// And after a power cut at any step, whatever survives of what wasn't synced.
TEST_F(IoFilesTest, WithoutPowerAtAnyStepTheFileIsTheOldOneOrTheNewOne) {
  const std::string old_contents(6000, 'o');
  const std::string new_contents(9000, 'n');
  for (const FaultKind how : {FaultKind::kLostWrites, FaultKind::kReorderedWrites}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      for (uint64_t step = 0; step < 8; ++step) {
        SCOPED_TRACE(testing::Message()
                     << FaultKindName(how) << " seed " << seed << " step " << step);
        ASSERT_OK(PublishFile(*io_, path_, AsBytes(old_contents), RenameMode::kReplace));
        FaultDevice device({.seed = seed, .faults = {{.kind = how, .first = step}}});
        const auto io = Faulty(device);
        const bool ok = PublishFile(*io, path_, AsBytes(new_contents), RenameMode::kReplace).ok();
        if (ok) device.PowerCut(how);
        EXPECT_OK(device.power_cut_status());
        const std::string contents = Contents(path_);
        EXPECT_TRUE(contents == new_contents || (!ok && contents == old_contents));
      }
    }
  }
}

TEST_F(IoFilesTest, TwoWritersOfOneNameNeverShareATemporary) {
  constexpr int kRounds = 30;
  const auto publish = [&](char letter) {
    const auto io = OpenIo(IoEngine::kAuto).value();
    const std::string contents(20000, letter);
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_OK(PublishFile(*io, path_, AsBytes(contents), RenameMode::kReplace));
    }
  };
  std::thread a(publish, 'a');
  std::thread b(publish, 'b');
  a.join();
  b.join();
  const std::string contents = Contents(path_);
  EXPECT_EQ(contents, std::string(20000, contents[0]));
  EXPECT_EQ(Names(), std::vector<std::string>{"m"});
}

TEST(TemporaryNames, AreToldFromOthers) {
  const std::string name = TemporaryPath("/kv/m");
  EXPECT_NE(name, TemporaryPath("/kv/m"));
  EXPECT_EQ(name.rfind("/kv/m.", 0), 0u);
  EXPECT_TRUE(IsTemporaryPath(name));
  EXPECT_TRUE(IsTemporaryPath("m.1-0123456789abcdef.tmp"));
  for (const char* other :
       {"m", "m.tmp", "m.1-0123.tmp", "m.x-0123456789abcdef.tmp", "m.1-0123456789abcdeg.tmp",
        "m.1-0123456789abcdef", ".tmp", ".1-0123456789abcdef.tmp"}) {
    EXPECT_FALSE(IsTemporaryPath(other)) << other;
  }
}

// A real full disk: a tmpfs of 1 MiB, where root may mount one.
class FullDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      GTEST_SKIP() << "mounting a tmpfs needs root";
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) {
      EXPECT_EQ(::umount2(folder_.path().c_str(), MNT_DETACH), 0);
    }
  }

  TempDir folder_;
  bool mounted_ = false;
  std::unique_ptr<Io> io_ = OpenIo(IoEngine::kAuto).value();
};

TEST_F(FullDiskTest, SaysNoSpaceAndThePathAndWorksAgainAfterwards) {
  ASSERT_OK(PublishFile(*io_, folder_ / "old", AsBytes("old"), RenameMode::kNoReplace));
  const std::string large(uint64_t{4} << 20, 'x');
  const Status status = PublishFile(*io_, folder_ / "new", AsBytes(large), RenameMode::kNoReplace);
  EXPECT_TRUE(FailsWith(status, StatusCode::kOutOfSpace, folder_ / "new"));
  EXPECT_TRUE(FailsWith(status, StatusCode::kOutOfSpace, "No space left"));
  ASSERT_OK_AND_ASSIGN(const std::vector<DirectoryEntry> entries, io_->List(folder_.path()));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(Contents(folder_ / "old"), "old");
  EXPECT_OK(PublishFile(*io_, folder_ / "new", AsBytes("fits"), RenameMode::kNoReplace));
}

TEST_F(FullDiskTest, PreallocatingTooMuchLeavesTheLength) {
  ASSERT_OK_AND_ASSIGN(const File file, io_->Open(folder_ / "f", {.write = true, .create = true}));
  EXPECT_TRUE(FailsWith(io_->Preallocate(file, 4 << 20), StatusCode::kOutOfSpace, "f"));
  EXPECT_EQ(io_->FileSize(file).value(), 0u);
  EXPECT_OK(io_->Preallocate(file, 64 << 10));
}

}  // namespace
}  // namespace kvbed
