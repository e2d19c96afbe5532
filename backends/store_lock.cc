#include "backends/store_lock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

namespace kvbed {
namespace {

std::string CommandOf(long pid) {
  std::ifstream comm(fmt::format("/proc/{}/comm", pid));
  std::string command;
  std::getline(comm, command);
  return command;
}

std::string DescribeProcess(long pid) {
  if (pid == static_cast<long>(::getpid())) return fmt::format("this process ({})", pid);
  const std::string command = CommandOf(pid);
  if (command.empty()) return fmt::format("process {}", pid);
  return fmt::format("process {} ({})", pid, command);
}

// Who holds a flock on `file`. A line of /proc/locks is "1: FLOCK  ADVISORY  WRITE 1234
// 08:01:5678 0 EOF": kind, mode, pid, device in hexadecimal, inode (proc(5)). Empty where the
// holder isn't visible, e.g. on another machine or in another container.
std::vector<std::string> HoldersFromProc(const File& file) {
  struct stat info = {};
  if (::fstat(file.fd(), &info) != 0) return {};
  const std::string place = fmt::format("{:02x}:{:02x}:{}", major(info.st_dev), minor(info.st_dev),
                                        static_cast<uint64_t>(info.st_ino));
  std::vector<std::string> holders;
  std::ifstream locks("/proc/locks");
  std::string line;
  while (std::getline(locks, line)) {
    std::istringstream fields(line);
    std::string number, kind, advisory, mode, where;
    long pid = 0;
    fields >> number >> kind >> advisory >> mode >> pid >> where;
    if (fields && kind == "FLOCK" && where == place && pid > 0) {
      holders.push_back(DescribeProcess(pid));
    }
  }
  return holders;
}

// What the last writer left in the file; it may be gone.
std::string WriterFromFile(const File& file) {
  std::array<char, 256> text;
  const ssize_t size = ::pread(file.fd(), text.data(), text.size(), 0);
  std::string writer(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  writer.resize(std::min(writer.find('\n'), writer.size()));
  for (char& c : writer) {
    if (c < ' ' || c > '~') c = '?';
  }
  return writer;
}

void WriteOwnName(const File& file) {
  const std::string text =
      fmt::format("process {} ({})\n", static_cast<long>(::getpid()), CommandOf(::getpid()));
  // For people only, so a failure doesn't matter: the lock is flock's.
  if (::ftruncate(file.fd(), 0) == 0) {
    [[maybe_unused]] const ssize_t written = ::pwrite(file.fd(), text.data(), text.size(), 0);
  }
}

Status HeldError(const std::string& directory, const File& file, LockMode mode) {
  std::string holder;
  if (const std::vector<std::string> holders = HoldersFromProc(file); !holders.empty()) {
    holder = fmt::format("{}", fmt::join(holders, " and "));
  } else if (const std::string writer = WriterFromFile(file); !writer.empty()) {
    holder = fmt::format("a process that can't be seen from here; the last writer was {}", writer);
  } else {
    holder = "a process that can't be seen from here";
  }
  const std::string_view wanted = mode == LockMode::kShared ? "reading" : "writing";
  return Status::IoError(
      fmt::format("{} can't be opened for {}: it is in use by {}; try again when that has ended",
                  directory, wanted, holder));
}

bool MayNotBeMade(const Status& status, const std::string& directory) {
  return !status.ok() && ::access(directory.c_str(), W_OK) != 0;
}

}  // namespace

Result<StoreLock> StoreLock::Acquire(Io& io, const std::string& directory, LockMode mode,
                                     std::string_view file_name) {
  const std::string path = directory + "/" + std::string(file_name);
  const bool writes = mode != LockMode::kShared;
  auto file = io.Open(path, {.write = writes, .create = writes});
  if (!writes && !file.ok() && file.status().code() == StatusCode::kNotFound) {
    file = io.Open(path, {.write = true, .create = true});
    if (MayNotBeMade(file.status(), directory)) return StoreLock();
  }
  if (!file.ok()) {
    return Status(
        file.status().code(),
        fmt::format("the store in {} can't be opened for {}: {}: it needs a folder that this "
                    "user may {} and a filesystem that is not read-only",
                    directory, writes ? "writing" : "reading", file.status().message(),
                    writes ? "write" : "read"));
  }
  StoreLock lock(std::move(*file), directory);
  KVBED_RETURN_IF_ERROR(lock.Change(mode));
  return lock;
}

Status StoreLock::Change(LockMode mode) {
  const int operation = (mode == LockMode::kExclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  while (::flock(file_.fd(), operation) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return HeldError(directory_, file_, mode);
    return StatusFromErrno(errno, fmt::format("lock {}", file_.path()));
  }
  if (mode == LockMode::kExclusive) WriteOwnName(file_);
  return Status::Ok();
}

}  // namespace kvbed
