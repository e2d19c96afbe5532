#include "tools/bench/page_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace kvbed {
namespace {

// cachestat(2), Linux 6.5. Older C libraries don't know it.
constexpr long kCachestatCall = 451;
struct CachestatRange {
  uint64_t offset = 0;
  uint64_t size = 0;  // 0: to the end of the file
};
struct Cachestat {
  uint64_t cached_pages = 0;
  uint64_t dirty_pages = 0;
  uint64_t writeback_pages = 0;
  uint64_t evicted_pages = 0;
  uint64_t recently_evicted_pages = 0;
};

uint64_t SystemPageBytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

// Nullopt where the kernel has no such call.
std::optional<uint64_t> PagesByCachestat(int fd) {
  CachestatRange range;
  Cachestat counts;
  if (::syscall(kCachestatCall, fd, &range, &counts, 0) != 0) return std::nullopt;
  return counts.cached_pages;
}

Result<uint64_t> PagesByMincore(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return StatusFromErrno(errno, "stat " + path);
  if (info.st_size == 0) return uint64_t{0};
  const auto bytes = static_cast<size_t>(info.st_size);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return StatusFromErrno(errno, "map " + path);
  std::vector<unsigned char> pages((bytes + SystemPageBytes() - 1) / SystemPageBytes());
  const bool ok = ::mincore(mapped, bytes, pages.data()) == 0;
  const int error = errno;
  ::munmap(mapped, bytes);
  if (!ok) return StatusFromErrno(error, "mincore " + path);
  return static_cast<uint64_t>(
      std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

class ReadOnlyFile {
 public:
  explicit ReadOnlyFile(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;
  ~ReadOnlyFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

using FileVisit = std::function<Status(int fd, const std::string& path)>;

// A file that went away meanwhile is no error.
Status VisitFile(const std::string& path, const FileVisit& visit) {
  const ReadOnlyFile file(path);
  if (file.fd() < 0) {
    return errno == ENOENT ? Status::Ok() : StatusFromErrno(errno, "open " + path);
  }
  return visit(file.fd(), path);
}

Status ForEachFile(const std::string& folder, const std::string& excluded, const FileVisit& visit) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (!excluded.empty() && it->path() == fs::path(excluded)) it.disable_recursion_pending();
    if (!it->is_regular_file(ignored)) continue;
    KVBED_RETURN_IF_ERROR(VisitFile(it->path().string(), visit));
  }
  if (error) return Status::IoError(fmt::format("list {}: {}", folder, error.message()));
  return Status::Ok();
}

}  // namespace

Result<CachedBytes> CachedBytesOf(const std::string& folder, const std::string& excluded) {
  CachedBytes out{.resident_bytes = 0, .method = "cachestat"};
  KVBED_RETURN_IF_ERROR(
      ForEachFile(folder, excluded, [&](int fd, const std::string& path) -> Status {
        if (const auto pages = PagesByCachestat(fd)) {
          out.resident_bytes += *pages * SystemPageBytes();
          return Status::Ok();
        }
        out.method = "mincore";
        KVBED_ASSIGN_OR_RETURN(const uint64_t pages, PagesByMincore(fd, path));
        out.resident_bytes += pages * SystemPageBytes();
        return Status::Ok();
      }));
  return out;
}

Status DropFromPageCache(const std::string& folder, const std::string& excluded) {
  return ForEachFile(folder, excluded, [](int fd, const std::string& path) {
    // Dirty pages can't be dropped.
    if (::fsync(fd) != 0) return StatusFromErrno(errno, "sync " + path);
    const int error = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return error == 0 ? Status::Ok() : StatusFromErrno(error, "drop the cached pages of " + path);
  });
}

}  // namespace kvbed
