#include "tools/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "backends/store_folder.h"
#include "offload/record_id.h"
#include "tools/write_all.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

// Without symbolic links, as far as the path is there.
fs::path Resolved(const std::string& path) {
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? fs::path(path) : resolved;
}

bool IsOrLiesIn(const fs::path& path, const std::string& place) {
  const fs::path relative = path.lexically_relative(Resolved(place));
  return !relative.empty() && *relative.begin() != "..";
}

// A store's own files, or what would lie among them.
bool LiesInAStore(const fs::path& path) {
  const auto is_store = [](const fs::path& folder) {
    std::error_code error;
    return fs::is_regular_file(folder / kIdentityFileName, error) &&
           fs::is_directory(folder / kManifestsFolderName, error);
  };
  const fs::path folder = path.parent_path();
  return is_store(folder) || is_store(folder.parent_path());
}

// Null where there is nothing.
fs::file_status StatusOf(const fs::path& path) {
  std::error_code error;
  return fs::status(path, error);
}

// Can the file be replaced by a new one beside it?
bool CanMakeFilesIn(const fs::path& folder) { return ::access(folder.c_str(), W_OK | X_OK) == 0; }

enum class Synced { kYes, kNo };

Status WriteTo(const std::string& path, int flags, std::string_view text, Synced synced) {
  const int fd = ::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return StatusFromErrno(errno, fmt::format("open {} for writing", path));
  Status status = WriteAll(fd, AsBytes(text), fmt::format("write {}", path));
  if (status.ok() && synced == Synced::kYes && ::fsync(fd) != 0) {
    status = StatusFromErrno(errno, fmt::format("fsync {}", path));
  }
  if (::close(fd) != 0 && status.ok()) {
    status = StatusFromErrno(errno, fmt::format("close {}", path));
  }
  return status;
}

std::string TemporaryNameFor(const fs::path& place) {
  return fmt::format("{}.{}-{:016x}.tmp", place.string(), ::getpid(), RandomId());
}

// Makes a rename in the folder durable.
Status SyncFolder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return StatusFromErrno(errno, fmt::format("open {}", folder.string()));
  Status status;
  if (::fsync(fd) != 0) status = StatusFromErrno(errno, fmt::format("fsync {}", folder.string()));
  ::close(fd);
  return status;
}

}  // namespace

Status CheckOutputFile(std::string_view option, const std::string& path, OutputKind kind,
                       const KeptPlaces& kept) {
  if (path.empty()) return Status::InvalidArgument(fmt::format("{} needs a file's name", option));
  if (path == "-") {
    return Status::InvalidArgument(
        fmt::format("{} names a file, and - is none: -o json writes to standard output", option));
  }
  const fs::path place = Resolved(path);
  for (const std::string& one : kept) {
    if (one.empty() || !IsOrLiesIn(place, one)) continue;
    return Status::InvalidArgument(fmt::format(
        "{} {} is or lies in {}, which this command uses: name another place", option, path, one));
  }
  if (LiesInAStore(place)) {
    return Status::InvalidArgument(
        fmt::format("{} {} lies inside a store: name another place", option, path));
  }
  const fs::file_status there = StatusOf(place);
  const bool exists = fs::exists(there);
  if (fs::is_directory(there)) {
    return Status::InvalidArgument(
        fmt::format("{} {} is a folder: name a file in it", option, path));
  }
  if (kind == OutputKind::kRegular && exists && !fs::is_regular_file(there)) {
    return Status::InvalidArgument(
        fmt::format("{} {} is no regular file: name another place", option, path));
  }
  if (!fs::is_directory(StatusOf(place.parent_path()))) {
    return Status::NotFound(
        fmt::format("{} {}: its folder is not there: make it first", option, path));
  }
  const bool in_place = exists && ::access(place.c_str(), W_OK) == 0;
  if (in_place || (!exists && CanMakeFilesIn(place.parent_path()))) return Status::Ok();
  return StatusFromErrno(errno,
                         fmt::format("{} {} can't be written (name another place)", option, path));
}

Status ReplaceFile(const std::string& path, std::string_view text) {
  const fs::path place = Resolved(path);
  const fs::path folder = place.parent_path();
  const fs::file_status there = StatusOf(place);
  if (fs::exists(there) && (!fs::is_regular_file(there) || !CanMakeFilesIn(folder))) {
    return WriteTo(path, O_TRUNC, text, Synced::kNo);
  }
  const std::string temporary = TemporaryNameFor(place);
  Status status = WriteTo(temporary, O_CREAT | O_EXCL, text, Synced::kYes);
  if (status.ok() && ::rename(temporary.c_str(), place.c_str()) != 0) {
    status = StatusFromErrno(errno, fmt::format("rename {} to {}", temporary, place.string()));
  }
  if (status.ok()) return SyncFolder(folder);
  ::unlink(temporary.c_str());
  return status;
}

ReplacedFile::ReplacedFile(int fd, std::string place, std::string temporary)
    : fd_(fd), place_(std::move(place)), temporary_(std::move(temporary)) {}

ReplacedFile::ReplacedFile(ReplacedFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      place_(std::move(other.place_)),
      temporary_(std::exchange(other.temporary_, {})) {}

ReplacedFile::~ReplacedFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<ReplacedFile> ReplacedFile::Create(const std::string& path, uint64_t size_bytes) {
  const fs::path place = Resolved(path);
  const bool in_place = fs::exists(StatusOf(place)) && !CanMakeFilesIn(place.parent_path());
  const std::string temporary = in_place ? std::string() : TemporaryNameFor(place);
  const std::string name = in_place ? place.string() : temporary;
  const int flags = O_WRONLY | O_CLOEXEC | (in_place ? O_TRUNC : O_CREAT | O_EXCL);
  const int fd = ::open(name.c_str(), flags, 0644);
  if (fd < 0) return StatusFromErrno(errno, fmt::format("open {} for writing", name));
  ReplacedFile file(fd, place.string(), temporary);
  const auto size = static_cast<off_t>(size_bytes);
  const bool unable = size > 0 && ::fallocate(fd, 0, 0, size) != 0 && errno != EOPNOTSUPP;
  if (unable || ::ftruncate(fd, size) != 0) {
    return StatusFromErrno(errno, fmt::format("make room for {} bytes in {}", size_bytes, path));
  }
  return file;
}

Status ReplacedFile::WriteAt(uint64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return StatusFromErrno(errno, fmt::format("write {} at {}", place_, offset));
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return Status::Ok();
}

Status ReplacedFile::Commit() {
  if (::fsync(fd_) != 0) return StatusFromErrno(errno, fmt::format("fsync {}", place_));
  if (::close(std::exchange(fd_, -1)) != 0) {
    const Status status = StatusFromErrno(errno, fmt::format("close {}", place_));
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    return status;
  }
  if (temporary_.empty()) return Status::Ok();
  if (::rename(temporary_.c_str(), place_.c_str()) != 0) {
    const Status status =
        StatusFromErrno(errno, fmt::format("rename {} to {}", temporary_, place_));
    ::unlink(temporary_.c_str());
    return status;
  }
  return SyncFolder(fs::path(place_).parent_path());
}

Status AppendToFile(const std::string& path, std::string_view text) {
  return WriteTo(path, O_CREAT | O_APPEND, text, Synced::kNo);
}

}  // namespace kvbed
