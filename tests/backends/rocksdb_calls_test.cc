// Proof that RocksDB's data files are moved by the seam alone: this program takes the place of the
// C library's calls that read and write, and counts those on RocksDB's tables, blobs and logs.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string_view>

#include "backends/open_store.h"
#include "tests/backends/io_engines.h"
#include "tests/backends/store_testing.h"

namespace {

std::atomic<uint64_t> g_calls_on_data_files{0};

bool IsDataFile(int fd) {
  std::array<char, 512> path;
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  const std::string_view name(path.data(), size > 0 ? static_cast<size_t>(size) : 0);
  return name.ends_with(".sst") || name.ends_with(".blob") ||
         (name.ends_with(".log") && name.find("/db/") != std::string_view::npos);
}

template <class Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void Count(int fd) {
  const int error = errno;
  if (IsDataFile(fd)) ++g_calls_on_data_files;
  errno = error;
}

}  // namespace

// In the place of libc's for the libraries too.
#pragma GCC visibility push(default)
extern "C" {
ssize_t read(int fd, void* data, size_t size) {
  static const auto next = Next<ssize_t(int, void*, size_t)>("read");
  Count(fd);
  return next(fd, data, size);
}
ssize_t write(int fd, const void* data, size_t size) {
  static const auto next = Next<ssize_t(int, const void*, size_t)>("write");
  Count(fd);
  return next(fd, data, size);
}
ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  static const auto next = Next<ssize_t(int, void*, size_t, off_t)>("pread");
  Count(fd);
  return next(fd, data, size, offset);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  static const auto next = Next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  Count(fd);
  return next(fd, data, size, offset);
}
ssize_t pread64(int fd, void* data, size_t size, off64_t offset) {
  static const auto next = Next<ssize_t(int, void*, size_t, off64_t)>("pread64");
  Count(fd);
  return next(fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  static const auto next = Next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  Count(fd);
  return next(fd, data, size, offset);
}
ssize_t readv(int fd, const iovec* pieces, int count) {
  static const auto next = Next<ssize_t(int, const iovec*, int)>("readv");
  Count(fd);
  return next(fd, pieces, count);
}
ssize_t writev(int fd, const iovec* pieces, int count) {
  static const auto next = Next<ssize_t(int, const iovec*, int)>("writev");
  Count(fd);
  return next(fd, pieces, count);
}
}
#pragma GCC visibility pop

namespace kvbed {
namespace {

constexpr uint64_t kRecord = 372'736;

class RocksDbCallsTest : public ::testing::Test {
 protected:
  std::unique_ptr<BlockStore> Open(StoreAccess access, const std::string& options) {
    auto store = OpenStore(ParseStoreSpec("rocksdb:" + (dir_ / "store") + options).value(),
                           {.access = access});
    EXPECT_OK(store);
    return store.ok() ? std::move(*store) : nullptr;
  }
  static uint64_t Number(BlockStore& store, std::string_view name) {
    for (const auto& [key, value] : store.info().details) {
      if (key == name) return std::stoull(value);
    }
    return 0;
  }
  // A snapshot, read back by the writer and by a reader, and removed.
  void UseStore(const std::string& options) {
    {
      const auto store = Open(StoreAccess::kCreate, options);
      ASSERT_OK(TakeSnapshot(*store, manifest_));
      EXPECT_TRUE(IsWhole(*store, manifest_));
    }
    EXPECT_TRUE(IsWhole(*Open(StoreAccess::kRead, options), manifest_));
    ASSERT_OK(Open(StoreAccess::kWrite, options)->RemoveManifest("s"));
  }

  TempDir dir_;
  const Manifest manifest_ = MakeManifest("s", kRecord, 32, 1);
};

TEST_F(RocksDbCallsTest, NoSystemCallReadsOrWritesDataFiles) {
  KVBED_NEEDS_ENGINE(IoEngine::kIoUring);
  for (const char* options : {"?ioengine=io_uring", "?ioengine=io_uring&wal=on"}) {
    SCOPED_TRACE(options);
    std::filesystem::remove_all(dir_ / "store");
    const uint64_t before = g_calls_on_data_files;
    UseStore(options);
    EXPECT_EQ(g_calls_on_data_files - before, 0u);
  }
}

// The control: RocksDB's own file system does make them.
TEST_F(RocksDbCallsTest, RocksDbsOwnFileSystemMakesThem) {
  const uint64_t before = g_calls_on_data_files;
  UseStore("?fs=posix");
  EXPECT_GT(g_calls_on_data_files - before, 32u);
}

TEST_F(RocksDbCallsTest, EntriesOfTheRingMatchWhatIsMoved) {
  KVBED_NEEDS_ENGINE(IoEngine::kIoUring);
  {
    const auto store = Open(StoreAccess::kCreate, "?ioengine=io_uring");
    const uint64_t before = Number(*store, "io_calls");
    ASSERT_OK(TakeSnapshot(*store, manifest_));
    // A MiB each of 32 records of 372,736 bytes and their headers is 12 entries, the last with
    // padding; the tables of records and ids, and the manifest's, are one each; a sync for each
    // file.
    const uint64_t calls = Number(*store, "io_calls") - before;
    EXPECT_GE(calls, 12u + 3 + 4);
    EXPECT_LE(calls, 12u + 3 + 4 + 8);
  }
  const auto reader = Open(StoreAccess::kRead, "?ioengine=io_uring");
  const uint64_t before = Number(*reader, "io_calls");
  TestRequests gets = GetsOf(manifest_);
  gets.RunOn(*reader, 16);
  ASSERT_OK(gets.first_error());
  // One entry for each record, and a few for the tables' blocks and the blob file's ends: nothing
  // is merged, nothing is read in passing.
  const uint64_t calls = Number(*reader, "io_calls") - before;
  EXPECT_GE(calls, 32u);
  EXPECT_LE(calls, 32u + 16);
  // One MultiGet is one batch of submissions, of four records here.
  EXPECT_GE(reader->info().iodepth_achieved, 4u);
  EXPECT_LE(reader->info().iodepth_achieved, 16u);
}

}  // namespace
}  // namespace kvbed
