#include "tools/verify/damage_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPieceBytes = 4096;  // that are zeroed or swapped
constexpr uint64_t kReadBytes = uint64_t{1} << 20;
constexpr int kAttempts = 50;

class OpenedFile {
 public:
  OpenedFile(const std::string& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  Status status() const {
    return fd_ >= 0 ? Status::Ok() : StatusFromErrno(errno, "open " + path_);
  }
  uint64_t size_bytes() const {
    struct stat info {};
    return ::fstat(fd_, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  }
  // As many as the file has from there.
  Result<std::vector<std::byte>> Read(uint64_t offset, uint64_t length) const {
    std::vector<std::byte> bytes(length);
    size_t got = 0;
    while (got < bytes.size()) {
      const ssize_t n =
          ::pread(fd_, bytes.data() + got, bytes.size() - got, static_cast<off_t>(offset + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return StatusFromErrno(errno, "read " + path_);
      if (n == 0) break;
      got += static_cast<size_t>(n);
    }
    bytes.resize(got);
    return bytes;
  }
  Status Write(uint64_t offset, Bytes bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return StatusFromErrno(errno, "write " + path_);
      offset += static_cast<uint64_t>(n);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return Status::Ok();
  }
  Status Resize(uint64_t size) const {
    if (::ftruncate(fd_, static_cast<off_t>(size)) == 0) return Status::Ok();
    return StatusFromErrno(errno, "truncate " + path_);
  }
  // What isn't a hole, in order.
  std::vector<std::pair<uint64_t, uint64_t>> DataRanges() const {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    const off_t size = static_cast<off_t>(size_bytes());
    for (off_t at = 0; at < size;) {
      const off_t begin = ::lseek(fd_, at, SEEK_DATA);
      if (begin < 0) break;
      const off_t end = ::lseek(fd_, begin, SEEK_HOLE);
      if (end <= begin) break;
      ranges.emplace_back(begin, end);
      at = end;
    }
    return ranges;
  }

 private:
  std::string path_;
  int fd_;
};

Status CopyContents(const std::string& from, const std::string& to) {
  const OpenedFile source(from, O_RDONLY);
  KVBED_RETURN_IF_ERROR(source.status());
  // In place, so that a store that finds its file by inode finds it.
  const OpenedFile target(to, O_RDWR | O_CREAT);
  KVBED_RETURN_IF_ERROR(target.status());
  KVBED_RETURN_IF_ERROR(target.Resize(0));
  KVBED_RETURN_IF_ERROR(target.Resize(source.size_bytes()));
  for (const auto& [begin, end] : source.DataRanges()) {
    for (uint64_t at = begin; at < end; at += kReadBytes) {
      KVBED_ASSIGN_OR_RETURN(const auto bytes, source.Read(at, std::min(kReadBytes, end - at)));
      KVBED_RETURN_IF_ERROR(target.Write(at, bytes));
    }
  }
  return Status::Ok();
}

int64_t Ns(const struct timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::vector<fs::path> Homes() {
  std::vector<fs::path> homes;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0)
    homes.emplace_back(home);
  // Of anyone: `getpwent` is no thread's business but main's here.
  ::setpwent();
  while (const struct passwd* entry = ::getpwent()) {
    if (entry->pw_dir != nullptr && *entry->pw_dir == '/') homes.emplace_back(entry->pw_dir);
  }
  ::endpwent();
  return homes;
}

// Whether `inner` is `outer` or lies in it.
bool LiesIn(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

Status CheckDamageFolder(const std::string& path) {
  const auto refuse = [&](std::string_view why) {
    return Status::InvalidArgument(
        fmt::format("--damage-dir {}: {}: name the folder in which the store under test alone "
                    "keeps its files",
                    path, why));
  };
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(path, error), error);
  if (path.empty() || error) return refuse("isn't a folder");
  if (folder == folder.root_path()) return refuse("is the root of the file system");
  for (const fs::path& home : Homes()) {
    const fs::path real = fs::weakly_canonical(home, error);
    if (!error && real != real.root_path() && LiesIn(real, folder)) {
      // Accounts of services have folders such as /var/lib/x, which are no homes until they exist.
      if (fs::exists(real, error)) return refuse("is a home, or a home lies in it");
    }
  }
  if (!fs::exists(folder, error)) return Status::Ok();
  if (!fs::is_directory(folder, error)) return refuse("isn't a folder");
  const auto first = fs::directory_iterator(folder, error);
  if (error) return refuse(error.message());
  if (first != fs::directory_iterator()) {
    return refuse(fmt::format("has files already ({}), which would be damaged",
                              first->path().filename().string()));
  }
  return Status::Ok();
}

std::string_view DamageKindName(DamageKind kind) {
  switch (kind) {
    case DamageKind::kFlip: return "flip";
    case DamageKind::kZero: return "zero";
    case DamageKind::kTruncate: return "truncate";
    case DamageKind::kSwap: return "swap";
    case DamageKind::kRemove: return "remove";
  }
  return "?";
}

Result<FolderInventory> ListFolder(const std::string& folder) {
  FolderInventory inventory;
  struct stat root {};
  if (::stat(folder.c_str(), &root) != 0) {
    if (errno == ENOENT) return inventory;
    return StatusFromErrno(errno, "look at " + folder);
  }
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    struct stat info {};
    if (::lstat(entry->path().c_str(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode) && info.st_dev != root.st_dev) entry.disable_recursion_pending();
    if (!S_ISREG(info.st_mode) || info.st_nlink != 1 || info.st_dev != root.st_dev) continue;
    inventory[entry->path().lexically_relative(folder).string()] = {
        info.st_ino, static_cast<uint64_t>(info.st_size), Ns(info.st_mtim), Ns(info.st_ctim)};
  }
  if (error) return Status::IoError(fmt::format("list {}: {}", folder, error.message()));
  return inventory;
}

Result<DamageFolder> DamageFolder::Keep(const std::string& folder, const FolderInventory& before,
                                        const std::string& backup) {
  DamageFolder kept(folder, backup);
  KVBED_ASSIGN_OR_RETURN(kept.kept_, ListFolder(folder));
  for (const auto& [name, stamp] : kept.kept_) {
    const auto old = before.find(name);
    if (old != before.end() && old->second == stamp) continue;
    std::error_code error;
    fs::create_directories(fs::path(backup + "/" + name).parent_path(), error);
    if (error) return Status::IoError(fmt::format("make {}: {}", backup, error.message()));
    KVBED_RETURN_IF_ERROR(CopyContents(folder + "/" + name, backup + "/" + name));
    if (stamp.size_bytes > 0) kept.files_.push_back(name);
  }
  return kept;
}

Result<std::vector<DamageFolder::Place>> DamageFolder::Find(
    const std::vector<Bytes>& patterns) const {
  std::vector<Place> places;
  for (size_t i = 0; i < files_.size(); ++i) {
    const OpenedFile file(folder_ + "/" + files_[i], O_RDONLY);
    KVBED_RETURN_IF_ERROR(file.status());
    for (const auto& [begin, end] : file.DataRanges()) {
      for (uint64_t at = begin; at < end; at += kReadBytes) {
        // A pattern may reach into the next piece.
        KVBED_ASSIGN_OR_RETURN(const auto bytes,
                               file.Read(at, std::min(kReadBytes + kPieceBytes, end - at)));
        for (const Bytes pattern : patterns) {
          const void* hit = ::memmem(bytes.data(), bytes.size(), pattern.data(), pattern.size());
          if (hit == nullptr) continue;
          const uint64_t offset =
              at + static_cast<uint64_t>(static_cast<const std::byte*>(hit) - bytes.data());
          places.push_back({i, offset});
        }
      }
    }
  }
  return places;
}

Result<DamageFolder::Place> DamageFolder::Choose(const std::vector<Place>& places,
                                                 std::mt19937_64& random) const {
  if (!places.empty() && random() % 2 == 0) return places[random() % places.size()];
  const size_t at = random() % files_.size();
  const OpenedFile file(folder_ + "/" + files_[at], O_RDONLY);
  KVBED_RETURN_IF_ERROR(file.status());
  const auto ranges = file.DataRanges();
  if (ranges.empty()) return Place{at, random() % std::max<uint64_t>(1, file.size_bytes())};
  const auto& [begin, end] = ranges[random() % ranges.size()];
  return Place{at, begin + random() % (end - begin)};
}

// Nothing when that wouldn't have changed a byte.
Result<std::optional<std::string>> DamageFolder::TryDamage(DamageKind kind,
                                                           const std::vector<Place>& places,
                                                           std::mt19937_64& random) const {
  const std::optional<std::string> nothing;
  KVBED_ASSIGN_OR_RETURN(const Place place, Choose(places, random));
  const std::string& name = files_[place.file];
  const std::string path = folder_ + "/" + name;
  if (kind == DamageKind::kRemove) {
    if (::unlink(path.c_str()) != 0) return StatusFromErrno(errno, "remove " + path);
    return std::optional(fmt::format("{} removed", name));
  }
  const OpenedFile file(path, O_RDWR);
  KVBED_RETURN_IF_ERROR(file.status());
  KVBED_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, file.Read(place.offset, kPieceBytes));
  if (bytes.empty()) return nothing;
  switch (kind) {
    case DamageKind::kFlip: {
      const uint64_t byte = random() % bytes.size();
      const uint64_t bit = random() % 8;
      bytes[byte] ^= std::byte{1} << static_cast<int>(bit);
      KVBED_RETURN_IF_ERROR(file.Write(place.offset, bytes));
      return std::optional(
          fmt::format("bit {} of byte {} of {} flipped", bit, place.offset + byte, name));
    }
    case DamageKind::kZero: {
      const bool zero =
          std::ranges::all_of(bytes, [](std::byte one) { return one == std::byte{0}; });
      if (zero) return nothing;
      std::ranges::fill(bytes, std::byte{0});
      KVBED_RETURN_IF_ERROR(file.Write(place.offset, bytes));
      return std::optional(
          fmt::format("{} bytes at {} of {} zeroed", bytes.size(), place.offset, name));
    }
    case DamageKind::kTruncate:
      KVBED_RETURN_IF_ERROR(file.Resize(place.offset));
      return std::optional(fmt::format("{} cut to {} bytes", name, place.offset));
    case DamageKind::kSwap: {
      KVBED_ASSIGN_OR_RETURN(const Place other, Choose(places, random));
      const OpenedFile second(folder_ + "/" + files_[other.file], O_RDWR);
      KVBED_RETURN_IF_ERROR(second.status());
      KVBED_ASSIGN_OR_RETURN(const auto theirs, second.Read(other.offset, bytes.size()));
      const bool apart = place.file != other.file || place.offset + bytes.size() <= other.offset ||
                         other.offset + bytes.size() <= place.offset;
      if (!apart || theirs.size() != bytes.size() || theirs == bytes) return nothing;
      KVBED_RETURN_IF_ERROR(file.Write(place.offset, theirs));
      KVBED_RETURN_IF_ERROR(second.Write(other.offset, bytes));
      return std::optional(fmt::format("{} bytes at {} of {} swapped with those at {} of {}",
                                       bytes.size(), place.offset, name, other.offset,
                                       files_[other.file]));
    }
    case DamageKind::kRemove: break;
  }
  return nothing;
}

Result<std::string> DamageFolder::Damage(DamageKind kind, const std::vector<Place>& places,
                                         std::mt19937_64& random) const {
  for (int attempt = 0; attempt < kAttempts && !files_.empty(); ++attempt) {
    KVBED_ASSIGN_OR_RETURN(auto done, TryDamage(kind, places, random));
    if (done) return std::move(*done);
  }
  return Status::IoError(
      fmt::format("{} has nothing that a {} would change", folder_, DamageKindName(kind)));
}

Status DamageFolder::PutBack() const {
  KVBED_ASSIGN_OR_RETURN(const FolderInventory now, ListFolder(folder_));
  for (const auto& [name, stamp] : now) {
    if (kept_.contains(name)) continue;
    const std::string path = folder_ + "/" + name;
    if (::unlink(path.c_str()) != 0) return StatusFromErrno(errno, "remove " + path);
  }
  for (const auto& [name, stamp] : kept_) {
    const std::string saved = backup_ + "/" + name;
    const auto there = now.find(name);
    std::error_code error;
    if (there != now.end() && there->second == stamp) continue;
    if (!fs::exists(saved, error)) continue;  // it was there before the store
    fs::create_directories(fs::path(folder_ + "/" + name).parent_path(), error);
    KVBED_RETURN_IF_ERROR(CopyContents(saved, folder_ + "/" + name));
  }
  return Status::Ok();
}

}  // namespace kvbed
