// A store's folder and its lock: what may be opened, made and shared, and what is said otherwise.
#include "backends/store_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/backends/io_engines.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

class StoreFolderTest : public ::testing::Test {
 protected:
  Result<StoreFolder> Open(StoreAccess access, std::string_view kind = "slab") {
    return StoreFolder::Open(*io_, path_, {.name = kind}, access);
  }
  Status Outcome(StoreAccess access) { return StatusOf(Open(access)); }

  // Opens in a child, which says so and keeps the store until told to end.
  class OtherProcess {
   public:
    OtherProcess(StoreFolderTest& test, StoreAccess access) {
      EXPECT_EQ(::pipe(ready_), 0);
      EXPECT_EQ(::pipe(end_), 0);
      pid_ = ::fork();
      if (pid_ == 0) {
        const auto folder = test.Open(access);
        char byte = folder.ok() ? 'y' : 'n';
        ::close(end_[1]);
        if (::write(ready_[1], &byte, 1) == 1) [[maybe_unused]]
          auto n = ::read(end_[0], &byte, 1);
        ::_exit(0);
      }
      ::close(end_[0]);
      char byte = 0;
      EXPECT_EQ(::read(ready_[0], &byte, 1), 1);
      opened_ = byte == 'y';
    }
    ~OtherProcess() {
      ::close(end_[1]);
      ::waitpid(pid_, nullptr, 0);
      ::close(ready_[0]);
      ::close(ready_[1]);
    }
    bool opened() const { return opened_; }
    std::string pid() const { return std::to_string(pid_); }

   private:
    int ready_[2], end_[2];
    pid_t pid_ = 0;
    bool opened_ = false;
  };

  TempDir dir_;
  std::string path_ = dir_ / "a/b/store";
  std::unique_ptr<Io> io_ = OpenIo(IoEngine::kPsync).value();
};

TEST_F(StoreFolderTest, OnlyCreatingMakesAMissingFolder) {
  for (const StoreAccess access : {StoreAccess::kRead, StoreAccess::kWrite}) {
    EXPECT_TRUE(FailsWith(Outcome(access), StatusCode::kNotFound, path_));
    EXPECT_FALSE(fs::exists(path_));
  }
  Digest128 uuid;
  {
    ASSERT_OK_AND_ASSIGN(const StoreFolder made, Open(StoreAccess::kCreate));
    uuid = made.uuid();
  }
  for (const StoreAccess access : {StoreAccess::kRead, StoreAccess::kWrite, StoreAccess::kCreate}) {
    ASSERT_OK_AND_ASSIGN(const StoreFolder folder, Open(access));
    EXPECT_EQ(folder.uuid(), uuid);
  }
}

TEST_F(StoreFolderTest, AnEmptyFolderIsTakenAndAForeignOneIsLeftAsItIs) {
  fs::create_directories(path_);
  EXPECT_EQ(Outcome(StoreAccess::kRead).code(), StatusCode::kNotFound);
  EXPECT_TRUE(fs::is_empty(path_));
  std::ofstream(path_ + "/thesis.txt") << "precious";
  for (const StoreAccess access : {StoreAccess::kRead, StoreAccess::kCreate}) {
    EXPECT_TRUE(FailsWith(Outcome(access), StatusCode::kInvalidArgument, "thesis.txt"));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 1);
  fs::remove(path_ + "/thesis.txt");
  EXPECT_OK(Outcome(StoreAccess::kCreate));
}

TEST_F(StoreFolderTest, AFileIsNoFolder) {
  fs::create_directories(dir_ / "a/b");
  std::ofstream(path_) << "x";
  EXPECT_FALSE(Outcome(StoreAccess::kRead).ok());
  EXPECT_FALSE(Outcome(StoreAccess::kCreate).ok());
}

TEST_F(StoreFolderTest, AStoreWhoseNameFileIsLostIsNotTakenForAnEmptyFolder) {
  ASSERT_OK(Outcome(StoreAccess::kCreate));
  std::ofstream(path_ + "/manifests/s.manifest") << "x";
  fs::remove(path_ + "/STORE");
  for (const StoreAccess access : {StoreAccess::kRead, StoreAccess::kWrite, StoreAccess::kCreate}) {
    EXPECT_TRUE(FailsWith(Outcome(access), StatusCode::kCorruption, "has lost its STORE file"));
  }
  EXPECT_TRUE(fs::exists(path_ + "/manifests/s.manifest"));
}

TEST_F(StoreFolderTest, AStoreWithoutItsManifestsSaysSo) {
  ASSERT_OK(Outcome(StoreAccess::kCreate));
  fs::remove(path_ + "/manifests");
  for (const StoreAccess access : {StoreAccess::kRead, StoreAccess::kWrite, StoreAccess::kCreate}) {
    EXPECT_TRUE(FailsWith(Outcome(access), StatusCode::kCorruption, "lost its manifests folder"));
  }
}

TEST_F(StoreFolderTest, AStoreOfAnotherKindSaysWhatToWrite) {
  ASSERT_OK(StatusOf(Open(StoreAccess::kCreate, "rocksdb")));
  EXPECT_TRUE(
      FailsWith(Outcome(StoreAccess::kRead), StatusCode::kInvalidArgument, "rocksdb:" + path_));
}

TEST_F(StoreFolderTest, AWriterSweepsTemporaryFilesAndAReaderDoesNot) {
  ASSERT_OK(Outcome(StoreAccess::kCreate));
  const std::string left = TemporaryPath(path_ + "/manifests/s.manifest");
  std::ofstream(left) << "half";
  std::ofstream(path_ + "/manifests/notes.txt") << "mine";
  EXPECT_OK(Outcome(StoreAccess::kRead));
  EXPECT_TRUE(fs::exists(left));
  EXPECT_OK(Outcome(StoreAccess::kWrite));
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(path_ + "/manifests/notes.txt"));
}

TEST_F(StoreFolderTest, ReadersShareAndAWriterExcludesAndIsNamed) {
  ASSERT_OK(Outcome(StoreAccess::kCreate));
  {
    const OtherProcess reader(*this, StoreAccess::kRead);
    ASSERT_TRUE(reader.opened());
    EXPECT_OK(Outcome(StoreAccess::kRead));
    const Status held = Outcome(StoreAccess::kWrite);
    EXPECT_TRUE(FailsWith(held, StatusCode::kIoError, "writing"));
    EXPECT_NE(held.message().find("try again"), std::string::npos);
    EXPECT_NE(held.message().find(path_), std::string::npos);
  }
  {
    const OtherProcess writer(*this, StoreAccess::kWrite);
    ASSERT_TRUE(writer.opened());
    for (const StoreAccess access : {StoreAccess::kRead, StoreAccess::kWrite}) {
      // By /proc/locks, or where that can't be, by what the writer left.
      EXPECT_TRUE(FailsWith(Outcome(access), StatusCode::kIoError,
                            "process " + writer.pid() + " (backends_test)"));
    }
  }
  // Its LOCK file is still there, and means nothing any more.
  EXPECT_TRUE(fs::exists(path_ + "/LOCK"));
  EXPECT_OK(Outcome(StoreAccess::kWrite));
}

TEST_F(StoreFolderTest, TheSameProcessCannotWriteTwice) {
  ASSERT_OK_AND_ASSIGN(const StoreFolder folder, Open(StoreAccess::kCreate));
  EXPECT_FALSE(Outcome(StoreAccess::kWrite).ok());
  EXPECT_TRUE(
      FailsWith(Outcome(StoreAccess::kRead), StatusCode::kIoError, std::to_string(::getpid())));
}

TEST_F(StoreFolderTest, AKilledWriterLeavesNoLock) {
  ASSERT_OK(Outcome(StoreAccess::kCreate));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto folder = Open(StoreAccess::kWrite);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_OK(Outcome(StoreAccess::kWrite));
}

}  // namespace
}  // namespace kvbed
