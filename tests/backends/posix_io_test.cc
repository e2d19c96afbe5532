// Files and folders of this machine, and what is known about direct I/O on them.
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "backends/direct_io.h"
#include "tests/backends/io_engines.h"

namespace kvbed {
namespace {

class PosixIoTest : public ::testing::Test {
 protected:
  File Create(std::string_view name, std::string_view contents = {}) {
    File file = io_->Open(folder_ / name, {.write = true, .create = true}).value();
    std::string copy(contents);
    const auto queue = io_->OpenQueue({.synchronous = true}).value();
    EXPECT_OK(
        MoveOne(*queue, Write(file, 0, {reinterpret_cast<std::byte*>(copy.data()), copy.size()}))
            .status);
    return file;
  }
  bool Exists(std::string_view name) { return std::filesystem::exists(folder_ / name); }

  TempDir folder_;
  std::unique_ptr<Io> io_ = OpenIo(IoEngine::kAuto).value();
};

TEST(IoEngineNames, RoundTripAndRefuseOthers) {
  for (const IoEngine engine : {IoEngine::kAuto, IoEngine::kIoUring, IoEngine::kPsync}) {
    EXPECT_EQ(ParseIoEngine(IoEngineName(engine)).value(), engine);
  }
  EXPECT_TRUE(FailsWith(ParseIoEngine("libaio").status(), StatusCode::kInvalidArgument, "libaio"));
}

TEST_F(PosixIoTest, NewFilesAreTheOwnersOnly) {
  const File file = Create("f");
  struct stat info {};
  ASSERT_EQ(::stat(file.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(PosixIoTest, OpenSaysWhatIsMissingAndWhatIsThereAlready) {
  EXPECT_TRUE(
      FailsWith(io_->Open(folder_ / "absent", {}).status(), StatusCode::kNotFound, "absent"));
  Create("f");
  EXPECT_FALSE(io_->Open(folder_ / "f", {.write = true, .create = true, .exclusive = true}).ok());
  EXPECT_OK(io_->Open(folder_ / "f", {.write = true, .create = true}));
}

TEST_F(PosixIoTest, DirectIsReadBackAndAligned) {
  ASSERT_OK_AND_ASSIGN(const File direct,
                       io_->Open(folder_ / "d", {.write = true, .create = true, .direct = true}));
  EXPECT_TRUE(direct.direct());
  EXPECT_GE(direct.alignment_bytes(), 512u);
  EXPECT_EQ(4096 % direct.alignment_bytes(), 0u);
  const File buffered = Create("b");
  EXPECT_FALSE(buffered.direct());
  EXPECT_EQ(buffered.alignment_bytes(), 1u);
}

TEST_F(PosixIoTest, DirectThatIsRefusedIsAnError) {
  // procfs has no direct I/O on any kernel.
  const Result<File> file = io_->Open("/proc/self/status", {.direct = true});
  EXPECT_TRUE(FailsWith(file.status(), StatusCode::kNotSupported, "/proc/self/status"));
  EXPECT_OK(io_->Open("/proc/self/status", {}));
}

TEST_F(PosixIoTest, AFolderInAFilesPlaceIsCalledOneAlsoWithDirect) {
  ASSERT_TRUE(std::filesystem::create_directory(folder_ / "f"));
  EXPECT_TRUE(FailsWith(StatusOf(io_->Open(folder_ / "f", {.direct = true})),
                        StatusCode::kCorruption, "no file but a folder"));
}

TEST_F(PosixIoTest, AMovedFileIsOpenOnce) {
  File file = Create("f");
  const int fd = file.fd();
  File other = std::move(file);
  EXPECT_FALSE(file.is_open());  // NOLINT: says what moving leaves
  EXPECT_EQ(other.fd(), fd);
  other = Create("g");
  EXPECT_EQ(other.path(), folder_ / "g");
}

TEST_F(PosixIoTest, PreallocateGrowsWithZeroesAndNeverShrinks) {
  const File file = Create("f", "abc");
  ASSERT_OK(io_->Preallocate(file, 1 << 20));
  EXPECT_EQ(io_->FileSize(file).value(), uint64_t{1} << 20);
  struct stat info {};
  ASSERT_EQ(::stat(file.path().c_str(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
  const std::string contents = Contents(file.path());
  EXPECT_EQ(contents.substr(0, 3), "abc");
  EXPECT_TRUE(AllZero(AsBytes(contents).subspan(3)));
  ASSERT_OK(io_->Preallocate(file, 4096));
  ASSERT_OK(io_->Preallocate(file, 0));
  EXPECT_EQ(io_->FileSize(file).value(), uint64_t{1} << 20);
}

// A limit of this process, since ext4 would first take all that the disk has.
TEST_F(PosixIoTest, PreallocateMoreThanThereIsLeavesTheLength) {
  const File file = Create("f", "abc");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Status status = io_->Preallocate(file, 2 << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, previous);
  EXPECT_TRUE(FailsWith(status, StatusCode::kOutOfSpace, file.path()));
  EXPECT_EQ(io_->FileSize(file).value(), 3u);
}

TEST_F(PosixIoTest, TruncateCutsAndGrows) {
  const File file = Create("f", "abcdef");
  ASSERT_OK(io_->Truncate(file, 2));
  EXPECT_EQ(Contents(file.path()), "ab");
  ASSERT_OK(io_->Truncate(file, 4));
  EXPECT_EQ(Contents(file.path()), std::string("ab\0\0", 4));
}

TEST_F(PosixIoTest, RenameReplacesOnlyWhenAsked) {
  Create("a", "new");
  Create("b", "old");
  EXPECT_TRUE(FailsWith(io_->Rename(folder_ / "a", folder_ / "b", RenameMode::kNoReplace),
                        StatusCode::kInvalidArgument, folder_ / "b"));
  EXPECT_EQ(Contents(folder_ / "b"), "old");
  EXPECT_TRUE(Exists("a"));
  ASSERT_OK(io_->Rename(folder_ / "a", folder_ / "b", RenameMode::kReplace));
  EXPECT_EQ(Contents(folder_ / "b"), "new");
  EXPECT_FALSE(Exists("a"));
  ASSERT_OK(io_->Rename(folder_ / "b", folder_ / "c", RenameMode::kNoReplace));
  EXPECT_EQ(Contents(folder_ / "c"), "new");
  EXPECT_TRUE(FailsWith(io_->Rename(folder_ / "b", folder_ / "d", RenameMode::kReplace),
                        StatusCode::kNotFound, folder_ / "b"));
}

TEST_F(PosixIoTest, UnlinkSaysWhatIsMissing) {
  Create("f");
  EXPECT_OK(io_->Unlink(folder_ / "f"));
  EXPECT_TRUE(FailsWith(io_->Unlink(folder_ / "f"), StatusCode::kNotFound, folder_ / "f"));
}

TEST_F(PosixIoTest, MakesDirectoriesWithTheirParents) {
  ASSERT_OK(io_->MakeDirectories(folder_ / "a/b//c/"));
  ASSERT_OK(io_->MakeDirectories(folder_ / "a/b/c"));
  struct stat info {};
  ASSERT_EQ(::stat((folder_ / "a/b/c").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  Create("file");
  EXPECT_TRUE(FailsWith(io_->MakeDirectories(folder_ / "file/x"), StatusCode::kIoError, "file"));
}

TEST_F(PosixIoTest, ListsByName) {
  Create("b", "12345");
  Create("a");
  ASSERT_OK(io_->MakeDirectories(folder_ / "c"));
  ASSERT_OK_AND_ASSIGN(std::vector<DirectoryEntry> entries, io_->List(folder_.path()));
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0], (DirectoryEntry{.name = "a"}));
  EXPECT_EQ(entries[1], (DirectoryEntry{.name = "b", .size_bytes = 5}));
  EXPECT_EQ(entries[2].name, "c");
  EXPECT_TRUE(entries[2].is_directory);
  EXPECT_TRUE(FailsWith(io_->List(folder_ / "absent").status(), StatusCode::kNotFound));
}

TEST_F(PosixIoTest, SyncsFilesAndDirectories) {
  const File file = Create("f", "x");
  EXPECT_OK(io_->SyncFile(file));
  EXPECT_OK(io_->SyncDirectory(folder_.path()));
  EXPECT_TRUE(FailsWith(io_->SyncDirectory(folder_ / "absent"), StatusCode::kNotFound));
  EXPECT_FALSE(io_->SyncDirectory(file.path()).ok());
}

TEST_F(PosixIoTest, RemovesEmptyDirectoriesOnly) {
  ASSERT_OK(io_->MakeDirectories(folder_ / "a/b"));
  EXPECT_FALSE(io_->RemoveDirectory(folder_ / "a").ok());
  EXPECT_OK(io_->RemoveDirectory(folder_ / "a/b"));
  EXPECT_OK(io_->RemoveDirectory(folder_ / "a"));
  EXPECT_TRUE(FailsWith(io_->RemoveDirectory(folder_ / "a"), StatusCode::kNotFound));
}

TEST_F(PosixIoTest, TriesDirectIoAndLeavesNothingBehind) {
  ASSERT_OK_AND_ASSIGN(const DirectProbe probe, ProbeDirect(*io_, folder_.path()));
  EXPECT_GE(probe.alignment_bytes, 512u);
  EXPECT_EQ(probe.filesystem, FilesystemType(folder_.path()).value());
  EXPECT_TRUE(io_->List(folder_.path())->empty());
}

TEST_F(PosixIoTest, FindsDirectIoThatOpensAndThenFails) {
  for (const FaultTarget target : {FaultTarget::kRead, FaultTarget::kWrite}) {
    FaultDevice device({.faults = {{.kind = FaultKind::kEio, .target = target}}});
    const auto io = MakeFaultyIo(OpenIo(IoEngine::kAuto).value(), device);
    const Status status = ProbeDirect(*io, folder_.path()).status();
    const std::string_view call = target == FaultTarget::kRead ? "read " : "write ";
    EXPECT_TRUE(FailsWith(status, StatusCode::kIoError, folder_.path()));
    EXPECT_TRUE(FailsWith(status, StatusCode::kIoError, call));
    EXPECT_TRUE(io->List(folder_.path())->empty());
  }
}

TEST_F(PosixIoTest, FindsDirectIoThatReadsOtherBytes) {
  FaultDevice device({.faults = {{.kind = FaultKind::kBitFlip, .target = FaultTarget::kRead}}});
  const auto io = MakeFaultyIo(OpenIo(IoEngine::kAuto).value(), device);
  EXPECT_TRUE(
      FailsWith(ProbeDirect(*io, folder_.path()).status(), StatusCode::kIoError, "not the bytes"));
}

TEST(FilesystemTypeTest, NamesFilesystems) {
  EXPECT_EQ(FilesystemType("/proc").value(), "0x9fa0");  // one without a name here
  if (std::filesystem::exists("/dev/shm")) {
    EXPECT_EQ(FilesystemType("/dev/shm").value(), "tmpfs");
  }
  EXPECT_TRUE(FailsWith(FilesystemType("/absent").status(), StatusCode::kNotFound, "/absent"));
}

}  // namespace
}  // namespace kvbed
