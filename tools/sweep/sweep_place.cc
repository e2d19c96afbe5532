#include "tools/sweep/sweep_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSweepFolderPrefix = "sweep-files-";
constexpr const char* kLockName = "lock";
// A folder without a lock is one that is being made, unless it is older.
constexpr auto kWithoutLockMost = std::chrono::minutes(1);

// Files first and the lock last: what a kill leaves of it still has its lock.
void RemoveSweepFolder(const fs::path& folder) {
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    if (it->path().filename() != kLockName) fs::remove_all(it->path(), ignored);
  }
  fs::remove_all(folder, ignored);
}

bool IsOlderThanItsMaking(const fs::path& folder) {
  std::error_code error;
  const auto written = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - written > kWithoutLockMost;
}

void RemoveIfLeft(const fs::path& folder) {
  const int fd = ::open((folder / kLockName).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT && IsOlderThanItsMaking(folder)) RemoveSweepFolder(folder);
    return;
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) RemoveSweepFolder(folder);
  ::close(fd);
}

void RemoveLeftovers(const std::string& path) {
  std::error_code error;
  std::vector<fs::path> folders;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(kSweepFolderPrefix)) {
      folders.push_back(it->path());
    }
  }
  for (const fs::path& folder : folders) RemoveIfLeft(folder);
}

// The highest folder of `path` that isn't there; empty when all are.
fs::path FirstMissing(const std::string& path) {
  fs::path missing;
  std::error_code error;
  for (fs::path at = fs::absolute(path, error).lexically_normal();
       !fs::exists(at, error) && at != at.parent_path(); at = at.parent_path()) {
    missing = at;
  }
  return missing;
}

}  // namespace

Result<std::unique_ptr<SweepPlace>> SweepPlace::Open(const std::string& path) {
  std::unique_ptr<SweepPlace> place(new SweepPlace);
  std::error_code error;
  place->path_ = fs::absolute(path, error).lexically_normal();
  place->first_made_ = FirstMissing(path);
  fs::create_directories(path, error);
  if (error) return StatusFromErrno(error.value(), fmt::format("make the folder {}", path));
  RemoveLeftovers(path);
  std::string folder = fmt::format("{}/{}XXXXXX", path, kSweepFolderPrefix);
  if (::mkdtemp(folder.data()) == nullptr) {
    return StatusFromErrno(errno, fmt::format("make a folder in {}", path));
  }
  place->folder_ = folder;
  const std::string lock = folder + "/" + kLockName;
  place->lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (place->lock_fd_ < 0) return StatusFromErrno(errno, fmt::format("make {}", lock));
  if (::flock(place->lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    return StatusFromErrno(errno, fmt::format("lock {}", lock));
  }
  return place;
}

SweepPlace::~SweepPlace() {
  if (!folder_.empty()) RemoveSweepFolder(folder_);
  if (lock_fd_ >= 0) ::close(lock_fd_);
  if (first_made_.empty()) return;
  // From the inside out, and only while they are empty: somebody else may have come to use them.
  for (fs::path at = path_;; at = at.parent_path()) {
    if (::rmdir(at.c_str()) != 0 && errno != ENOENT) return;
    if (at == first_made_ || at == at.parent_path()) return;
  }
}

}  // namespace kvbed
