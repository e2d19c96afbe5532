#include "backends/disk_space.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace kvbed {
namespace {

uint64_t BlocksBytes(const std::filesystem::path& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return 0;
  return static_cast<uint64_t>(info.st_blocks) * 512;
}

}  // namespace

Result<uint64_t> AvailableBytes(const std::string& path) {
  struct statvfs info = {};
  if (::statvfs(path.c_str(), &info) != 0) {
    return StatusFromErrno(errno, fmt::format("statvfs {}", path));
  }
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

uint64_t ReserveBytes(const std::string& path) {
  struct statvfs info = {};
  if (::statvfs(path.c_str(), &info) != 0) return 0;
  const uint64_t total_bytes = static_cast<uint64_t>(info.f_blocks) * info.f_frsize;
  return std::min(total_bytes / 20, uint64_t{1} << 30);
}

uint64_t AllocatedBytes(const std::string& directory) {
  uint64_t bytes = BlocksBytes(directory);
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(directory, error);
  while (!error && entry != std::filesystem::recursive_directory_iterator()) {
    bytes += BlocksBytes(entry->path());
    entry.increment(error);
  }
  return bytes;
}

}  // namespace kvbed
