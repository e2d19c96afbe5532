// What is cached of a folder is seen, dropped and judged; what can't be dropped is not called cold.
#include "tools/bench/page_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "offload/bytes.h"
#include "tests/support/require.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/bench/cache_state.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBytes = 1 << 20;

class PageCacheTest : public ::testing::Test {
 protected:
  void Write(const std::string& name) const {
    fs::create_directories(fs::path(dir_ / name).parent_path());
    std::ofstream(dir_ / name) << std::string(kBytes, 'x');
  }
  uint64_t Cached(const std::string& excluded = {}) const {
    return CachedBytesOf(dir_.path(), excluded).value().resident_bytes;
  }

  const TempDir dir_;
};

TEST_F(PageCacheTest, SeesWhatWasWrittenInAllFolders) {
  EXPECT_EQ(Cached(), 0u);
  Write("a");
  Write("deep/er/b");
  EXPECT_EQ(Cached(), 2 * kBytes);
  EXPECT_EQ(Cached(dir_ / "deep"), kBytes);
}

TEST_F(PageCacheTest, DropsWhatItIsAskedToDrop) {
  Write("a");
  Write("own/b");
  ASSERT_OK(DropFromPageCache(dir_.path(), dir_ / "own"));
  if (Cached(dir_ / "own") == kBytes) KVBED_SKIP_OR_FAIL("the filesystem keeps its pages");
  EXPECT_EQ(Cached(dir_ / "own"), 0u);
  EXPECT_EQ(Cached(), kBytes) << "the excluded folder's are left";
}

// Pages that a process has mapped stay, which fadvise doesn't say.
TEST_F(PageCacheTest, WhatCantBeDroppedIsNotCold) {
  Write("a");
  const int fd = ::open((dir_ / "a").c_str(), O_RDONLY);
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const Bytes bytes(static_cast<const std::byte*>(mapped), kBytes);
  const auto used = std::ranges::count(bytes, std::byte{'x'});
  const CachedFiles files{.store_folder = dir_.path(), .own_folder = {}};
  ASSERT_OK(SetCacheState(CacheState::kCold, files, [] { return Status::Ok(); }));
  std::optional<CacheSamples> samples;
  ASSERT_OK(NoteCacheState(files, kBytes, samples));
  ::munmap(mapped, kBytes);
  ::close(fd);
  EXPECT_EQ(static_cast<uint64_t>(used), kBytes);
  EXPECT_EQ(samples->resident, std::vector<double>{1.0});
  EXPECT_NE(NotInState(CacheState::kCold, samples).find("not cold"), std::string::npos);
  EXPECT_EQ(NotInState(CacheState::kWarm, samples), "");
}

TEST_F(PageCacheTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_FALSE(CachedBytesOf(dir_ / "absent", {}).ok());
  EXPECT_FALSE(DropFromPageCache(dir_ / "absent", {}).ok());
}

TEST(CacheState, OneRestoreThatIsNotInItIsEnough) {
  const CacheSamples cold{.resident = {0, 0.009}, .method = "mincore"};
  EXPECT_EQ(NotInState(CacheState::kCold, cold), "");
  const CacheSamples tepid{.resident = {0, 0.02, 0}, .method = "mincore"};
  EXPECT_EQ(NotInState(CacheState::kCold, tepid),
            "not cold: the page cache held 2.0 % of the snapshot (mincore)");
  const CacheSamples evicted{.resident = {1, 0.5}, .method = "mincore"};
  EXPECT_NE(NotInState(CacheState::kWarm, evicted), "");
  EXPECT_NE(NotInState(CacheState::kCold, std::nullopt), "");
}

TEST(CacheState, WarmIsReadOnce) {
  int reads = 0;
  ASSERT_OK(SetCacheState(CacheState::kWarm, {}, [&] {
    ++reads;
    return Status::Ok();
  }));
  EXPECT_EQ(reads, 1);
}

}  // namespace
}  // namespace kvbed
