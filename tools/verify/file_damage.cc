#include "tools/verify/file_damage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

// A descriptor that closes itself.
class FileToDamage {
 public:
  FileToDamage(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  FileToDamage(const FileToDamage&) = delete;
  FileToDamage& operator=(const FileToDamage&) = delete;
  ~FileToDamage() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

Status ErrnoOf(const char* verb, const std::string& path) {
  return StatusFromErrno(errno, fmt::format("{} {}", verb, path));
}

Status WriteBytes(const std::string& path, int flags, uint64_t offset, std::string_view bytes) {
  const FileToDamage file(path, O_WRONLY | flags);
  if (file.fd() < 0) return ErrnoOf("open", path);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put = ::pwrite(file.fd(), bytes.data() + done, bytes.size() - done,
                                 static_cast<off_t>(offset + done));
    if (put <= 0) return ErrnoOf("write", path);
    done += static_cast<size_t>(put);
  }
  return Status::Ok();
}

Status SetSize(const std::string& path, uint64_t size_bytes) {
  if (::truncate(path.c_str(), static_cast<off_t>(size_bytes)) == 0) return Status::Ok();
  return ErrnoOf("truncate", path);
}

Status Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return Status::Ok();
  return ErrnoOf("rename", from);
}

bool ActsAs(uid_t user) { return static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) == user; }

}  // namespace

std::vector<std::string> FilesBelow(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_regular_file(error)) files.push_back(entry->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

uint64_t SizeOfFile(const std::string& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

Result<std::string> ReadBytes(const std::string& path, uint64_t offset, uint64_t size_bytes) {
  const FileToDamage file(path, O_RDONLY);
  if (file.fd() < 0) return ErrnoOf("open", path);
  std::string bytes(size_bytes, '\0');
  for (size_t done = 0; done < size_bytes;) {
    const ssize_t got = ::pread(file.fd(), bytes.data() + done, size_bytes - done,
                                static_cast<off_t>(offset + done));
    if (got < 0) return ErrnoOf("read", path);
    if (got == 0) return Status::IoError(fmt::format("read {}: it ends too early", path));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

FileDamage::~FileDamage() { Undo().IgnoreError(); }

Status FileDamage::Overwrite(const std::string& path, uint64_t offset, const std::string& bytes) {
  KVBED_ASSIGN_OR_RETURN(std::string old, ReadBytes(path, offset, bytes.size()));
  steps_.push_back({Step::Kind::kBytes, path, offset, std::move(old)});
  return WriteBytes(path, 0, offset, bytes);
}

Status FileDamage::FlipBit(const std::string& path, uint64_t offset, uint32_t bit) {
  KVBED_ASSIGN_OR_RETURN(std::string byte, ReadBytes(path, offset, 1));
  byte[0] = static_cast<char>(byte[0] ^ (1 << bit));
  return Overwrite(path, offset, byte);
}

Status FileDamage::Truncate(const std::string& path, uint64_t size_bytes) {
  const uint64_t size_before = SizeOfFile(path);
  if (size_bytes < size_before) {
    KVBED_ASSIGN_OR_RETURN(std::string old, ReadBytes(path, size_bytes, size_before - size_bytes));
    steps_.push_back({Step::Kind::kBytes, path, size_bytes, std::move(old)});
  }
  steps_.push_back({Step::Kind::kSize, path, size_before, {}});
  return SetSize(path, size_bytes);
}

Status FileDamage::Append(const std::string& path, const std::string& bytes) {
  const uint64_t size_before = SizeOfFile(path);
  steps_.push_back({Step::Kind::kSize, path, size_before, {}});
  return WriteBytes(path, 0, size_before, bytes);
}

Status FileDamage::Remove(const std::string& path) { return MoveAway(path); }

Status FileDamage::ReplaceByFile(const std::string& path, const std::string& bytes) {
  KVBED_RETURN_IF_ERROR(MoveAway(path));
  return WriteBytes(path, O_CREAT | O_EXCL, 0, bytes);
}

Status FileDamage::ReplaceByFolder(const std::string& path) {
  KVBED_RETURN_IF_ERROR(MoveAway(path));
  if (::mkdir(path.c_str(), 0700) == 0) return Status::Ok();
  return ErrnoOf("make folder", path);
}

Status FileDamage::MoveAway(const std::string& path) {
  std::string kept = fmt::format("{}/kept-{}", spare_folder_, steps_.size());
  KVBED_RETURN_IF_ERROR(Rename(path, kept));
  steps_.push_back({Step::Kind::kMoved, path, 0, std::move(kept)});
  return Status::Ok();
}

Status FileDamage::Undo() {
  Status first;
  while (!steps_.empty()) {
    const Status status = UndoStep(steps_.back());
    if (first.ok()) first = status;
    steps_.pop_back();
  }
  return first;
}

Status FileDamage::UndoStep(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kBytes: return WriteBytes(step.path, 0, step.offset, step.bytes);
    case Step::Kind::kSize: return SetSize(step.path, step.offset);
    case Step::Kind::kMoved: break;
  }
  std::error_code ignored;
  fs::remove_all(step.path, ignored);
  return Rename(step.bytes, step.path);
}

Result<LostPermission> LostPermission::Take(const std::string& folder, const std::string& path) {
  const bool root = ::geteuid() == 0;
  if (root) {
    // The way to the folder and all in it are anyone's.
    std::error_code ignored;
    const fs::path parent = fs::path(folder).parent_path();
    for (const fs::path& way : {parent.parent_path(), parent}) ::chmod(way.c_str(), 0711);
    ::chmod(folder.c_str(), 0777);
    for (fs::recursive_directory_iterator entry(folder, ignored);
         !ignored && entry != fs::recursive_directory_iterator(); entry.increment(ignored)) {
      ::chmod(entry->path().c_str(), entry->is_directory(ignored) ? 0777 : 0666);
    }
  }
  if (::chmod(path.c_str(), 0) != 0) return ErrnoOf("chmod", path);
  LostPermission lost(path, root);
  if (root) {
    ::setfsuid(kNobody);
    if (!ActsAs(kNobody)) {
      return Status::NotSupported(
          "this runs as root, whom no mode keeps out, and it may not act as another user");
    }
  }
  const FileToDamage opened(path, O_RDONLY);
  if (opened.fd() < 0 && errno == EACCES) return lost;
  return Status::NotSupported("on this machine a file without permissions can still be opened");
}

LostPermission::LostPermission(LostPermission&& other) noexcept
    : path_(std::exchange(other.path_, {})), as_other_user_(other.as_other_user_) {}

LostPermission::~LostPermission() {
  if (path_.empty()) return;
  if (as_other_user_) ::setfsuid(::geteuid());
  ::chmod(path_.c_str(), 0600);
}

}  // namespace kvbed
