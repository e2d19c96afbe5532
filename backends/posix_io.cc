#include "backends/posix_io.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "backends/psync_queue.h"
#include "backends/uring_queue.h"

namespace kvbed {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kDirectoryMode = 0700;
constexpr uint32_t kDirectAlignmentBytes = 4096;  // where statx doesn't say

// A call that signals interrupt is made again.
template <class Call>
auto Uninterrupted(Call call) -> decltype(call()) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// What direct I/O on this file must be aligned to; 0: the filesystem has no direct I/O for it.
uint32_t DirectAlignment(int fd) {
#ifdef STATX_DIOALIGN
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    return info.stx_dio_offset_align == 0
               ? 0
               : std::max({info.stx_dio_mem_align, info.stx_dio_offset_align, 1u});
  }
#else
  static_cast<void>(fd);
#endif
  return kDirectAlignmentBytes;
}

Status NoDirect(const std::string& path, std::string_view why) {
  return Status::NotSupported(fmt::format(
      "open {} with O_DIRECT: {}; this filesystem has no direct I/O for it", path, why));
}

Status NoFile(const std::string& path) {
  return Status::Corruption(
      fmt::format("open {}: it is no file but a pipe, a socket or a device; remove it", path));
}

// It was opened without waiting for a pipe's other end; io_uring would take the flag for a request
// not to wait for the disk either.
Status CheckRegular(const File& file) {
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) {
    return StatusFromErrno(errno, fmt::format("fstat {}", file.path()));
  }
  // A folder is told by the reads that fail.
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    return NoFile(file.path());
  }
  const int flags = ::fcntl(file.fd(), F_GETFL);
  if (flags < 0 || ::fcntl(file.fd(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return StatusFromErrno(errno, fmt::format("fcntl of {}", file.path()));
  }
  return Status::Ok();
}

class PosixIo final : public Io {
 public:
  PosixIo(IoEngine engine, std::string engine_reason)
      : engine_(engine), engine_reason_(std::move(engine_reason)) {}

  Result<File> Open(const std::string& path, const OpenOptions& options) override {
    // Nobody may ever write into a pipe that lies in the place of a file.
    int flags = O_CLOEXEC | O_NONBLOCK | (options.write ? O_RDWR : O_RDONLY);
    if (options.create) flags |= O_CREAT;
    if (options.create && options.exclusive) flags |= O_EXCL;
    if (options.direct) flags |= O_DIRECT;
    const int fd = Uninterrupted([&] { return ::open(path.c_str(), flags, kFileMode); });
    if (fd < 0) {
      const int error = errno;
      if (error == EINVAL && options.direct) {
        // The kernel creates before it refuses. Only what is surely ours is removed.
        if (options.create && options.exclusive) ::unlink(path.c_str());
        struct stat info {};
        if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
          return Status::Corruption(
              fmt::format("open {}: it is no file but a folder; remove it", path));
        }
        if (info.st_mode != 0 && !S_ISREG(info.st_mode)) return NoFile(path);
        return NoDirect(path, std::strerror(error));
      }
      return StatusFromErrno(error, fmt::format("open {}", path));
    }
    // Closes when what follows fails.
    File file(fd, path, options.direct, options.direct ? DirectAlignment(fd) : 1);
    KVBED_RETURN_IF_ERROR(CheckRegular(file));
    if (!options.direct) return file;
    const int effective = ::fcntl(fd, F_GETFL);
    if (effective < 0) return StatusFromErrno(errno, fmt::format("fcntl(F_GETFL) of {}", path));
    if ((effective & O_DIRECT) == 0) return NoDirect(path, "the flag isn't in effect after open");
    if (file.alignment_bytes() == 0) return NoDirect(path, "statx names no alignment for it");
    return file;
  }

  Result<uint64_t> FileSize(const File& file) override {
    struct stat info {};
    if (::fstat(file.fd(), &info) != 0) {
      return StatusFromErrno(errno, fmt::format("fstat {}", file.path()));
    }
    return static_cast<uint64_t>(info.st_size);
  }

  Status Preallocate(const File& file, uint64_t size_bytes) override {
    KVBED_ASSIGN_OR_RETURN(const uint64_t size_before, FileSize(file));
    const auto length = static_cast<off_t>(size_bytes);
    if (size_bytes == 0) return Status::Ok();
    if (Uninterrupted([&] { return ::fallocate(file.fd(), 0, 0, length); }) == 0) {
      return Status::Ok();
    }
    const int error = errno;
    if (error == EOPNOTSUPP || error == ENOSYS) {
      return size_bytes > size_before ? Truncate(file, size_bytes) : Status::Ok();
    }
    // A filesystem that ran full on the way may have made the file longer.
    Truncate(file, size_before).IgnoreError();
    return StatusFromErrno(error, fmt::format("fallocate {} to {} bytes", file.path(), size_bytes));
  }

  Status Truncate(const File& file, uint64_t size_bytes) override {
    const auto length = static_cast<off_t>(size_bytes);
    if (Uninterrupted([&] { return ::ftruncate(file.fd(), length); }) != 0) {
      return StatusFromErrno(errno,
                             fmt::format("ftruncate {} to {} bytes", file.path(), size_bytes));
    }
    return Status::Ok();
  }

  Status SyncFile(const File& file) override {
    // Not again after EINTR: who calls must treat the data as lost.
    if (::fsync(file.fd()) != 0) return StatusFromErrno(errno, "fsync " + file.path());
    return Status::Ok();
  }

  Status Rename(const std::string& from, const std::string& to, RenameMode mode) override {
    const std::string operation = fmt::format("rename {} to {}", from, to);
    if (mode == RenameMode::kReplace) {
      return ::rename(from.c_str(), to.c_str()) == 0 ? Status::Ok()
                                                     : StatusFromErrno(errno, operation);
    }
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
      return Status::Ok();
    }
    int error = errno;
    if (error == EINVAL || error == ENOSYS) {
      // A filesystem without RENAME_NOREPLACE: link never replaces.
      if (::link(from.c_str(), to.c_str()) == 0) return Unlink(from);
      error = errno;
    }
    if (error == EEXIST) {
      return Status::InvalidArgument(fmt::format("{}: {} exists already", operation, to));
    }
    return StatusFromErrno(error, operation);
  }

  Status Unlink(const std::string& path) override {
    return ::unlink(path.c_str()) == 0 ? Status::Ok() : StatusFromErrno(errno, "unlink " + path);
  }

  Status MakeDirectories(const std::string& path) override {
    const std::filesystem::path wanted = std::filesystem::path(path).lexically_normal();
    std::filesystem::path made;
    for (const std::filesystem::path& part : wanted) {
      const std::filesystem::path parent = made.empty() ? "." : made;
      made /= part;
      if (::mkdir(made.c_str(), kDirectoryMode) == 0) {
        KVBED_RETURN_IF_ERROR(SyncDirectory(parent.string()));
        continue;
      }
      const int error = errno;
      struct stat info {};
      if (::stat(made.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
      return StatusFromErrno(error, "mkdir " + made.string());
    }
    return Status::Ok();
  }

  Status RemoveDirectory(const std::string& path) override {
    return ::rmdir(path.c_str()) == 0 ? Status::Ok() : StatusFromErrno(errno, "rmdir " + path);
  }

  Status SyncDirectory(const std::string& path) override {
    const int fd =
        Uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) return StatusFromErrno(errno, "open directory " + path);
    const File directory(fd, path, false, 1);
    if (::fsync(fd) != 0) return StatusFromErrno(errno, "fsync directory " + path);
    return Status::Ok();
  }

  Result<std::vector<DirectoryEntry>> List(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
    if (directory == nullptr) return StatusFromErrno(errno, "list " + path);
    std::vector<DirectoryEntry> entries;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(directory.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat info {};
      if (::fstatat(::dirfd(directory.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) continue;  // gone since
        return StatusFromErrno(errno, fmt::format("stat {}/{}", path, name));
      }
      entries.push_back({.name = std::string(name),
                         .is_directory = S_ISDIR(info.st_mode),
                         .is_special = !S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode),
                         .size_bytes = static_cast<uint64_t>(info.st_size)});
    }
    if (errno != 0) return StatusFromErrno(errno, "list " + path);
    std::sort(entries.begin(), entries.end(),
              [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
    return entries;
  }

  Result<std::unique_ptr<IoQueue>> OpenQueue(const IoQueueOptions& options) override {
    if (engine_ == IoEngine::kIoUring && !options.synchronous) return OpenUringQueue(options);
    return OpenPsyncQueue(options,
                          options.synchronous ? "synchronous was asked for" : engine_reason_);
  }

 private:
  const IoEngine engine_;
  const std::string engine_reason_;
};

}  // namespace

std::unique_ptr<Io> MakePosixIo(IoEngine engine, std::string engine_reason) {
  KVBED_CHECK(engine != IoEngine::kAuto);
  return std::make_unique<PosixIo>(engine, std::move(engine_reason));
}

}  // namespace kvbed
