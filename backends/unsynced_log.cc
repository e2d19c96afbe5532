#include "backends/unsynced_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "offload/fault_plan.h"

namespace kvbed {
namespace {

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

Result<struct stat> StatOf(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return StatusFromErrno(errno, fmt::format("fstat {}", path));
  return info;
}

// A second descriptor of the same file: works for an unlinked one too, and without O_DIRECT.
Result<HeldFile> Reopen(int fd, const std::string& path) {
  const std::string name = fmt::format("/proc/self/fd/{}", fd);
  HeldFile file(::open(name.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) return StatusFromErrno(errno, fmt::format("reopen {}", path));
  return file;
}

// Reads as much as there is; what lies behind the end of the file stays zero.
Status ReadOld(int fd, uint64_t offset, std::vector<std::byte>& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0) return StatusFromErrno(errno, "read what a write is about to replace");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return Status::Ok();
}

Status WriteBack(int fd, uint64_t offset, Bytes bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put =
        ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (put <= 0) return StatusFromErrno(put < 0 ? errno : EIO, "write back what a cut undoes");
    done += static_cast<size_t>(put);
  }
  return Status::Ok();
}

// Writes back `bytes` of `offset` on, except where a later write survives.
Status WriteBackOutside(const std::vector<Range>& kept, int fd, uint64_t offset, Bytes bytes) {
  const uint64_t end = offset + bytes.size();
  for (uint64_t at = offset; at < end;) {
    const auto inside = std::find_if(kept.begin(), kept.end(), [at](const Range& range) {
      return range.begin <= at && at < range.end;
    });
    if (inside != kept.end()) {
      at = inside->end;
      continue;
    }
    uint64_t until = end;
    for (const Range& range : kept) {
      if (range.begin > at) until = std::min(until, range.begin);
    }
    KVBED_RETURN_IF_ERROR(WriteBack(fd, at, bytes.subspan(at - offset, until - at)));
    at = until;
  }
  return Status::Ok();
}

// The file of a name that a power cut brings back, with the bytes that `removed` has by then.
Status BringBack(const HeldFile& removed, const std::string& path) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  HeldFile copy(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!copy.is_open()) return StatusFromErrno(errno, fmt::format("bring back {}", path));
  KVBED_ASSIGN_OR_RETURN(const struct stat info, StatOf(removed.fd(), path));
  const auto size_bytes = static_cast<uint64_t>(info.st_size);
  constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
  for (uint64_t at = 0; at < size_bytes; at += kPieceBytes) {
    std::vector<std::byte> piece(std::min(kPieceBytes, size_bytes - at));
    KVBED_RETURN_IF_ERROR(ReadOld(removed.fd(), at, piece));
    if (!AllZero(piece)) KVBED_RETURN_IF_ERROR(WriteBack(copy.fd(), at, piece));
  }
  if (::ftruncate(copy.fd(), info.st_size) != 0) {
    return StatusFromErrno(errno, fmt::format("bring back {}", path));
  }
  return Status::Ok();
}

// How many of the bytes [begin, end) there are up to the last that isn't in a hole. All of them
// where the filesystem knows no holes.
uint64_t DataBytesFrom(int fd, uint64_t begin, uint64_t end) {
  uint64_t data_end = begin;
  for (uint64_t at = begin; at < end;) {
    const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    const off_t hole = data < 0 ? -1 : ::lseek(fd, data, SEEK_HOLE);
    if (hole < 0) return end - begin;
    if (static_cast<uint64_t>(data) >= end) break;
    data_end = at = std::min(static_cast<uint64_t>(hole), end);
  }
  return data_end - begin;
}

std::string NormalDirectoryOf(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().parent_path().string();
}

}  // namespace

Result<std::vector<std::byte>> BytesBeside(const File& file, uint64_t offset,
                                           uint64_t length_bytes) {
  KVBED_ASSIGN_OR_RETURN(const HeldFile held, Reopen(file.fd(), file.path()));
  std::vector<std::byte> bytes(length_bytes);
  KVBED_RETURN_IF_ERROR(ReadOld(held.fd(), offset, bytes));
  return bytes;
}

HeldFile& HeldFile::operator=(HeldFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

HeldFile::~HeldFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<UnsyncedLog::FileChanges*> UnsyncedLog::Track(const File& file) {
  KVBED_ASSIGN_OR_RETURN(const struct stat info, StatOf(file.fd(), file.path()));
  FileChanges& changes = files_[{info.st_dev, info.st_ino}];
  // The held descriptor keeps the inode number from being given to another file meanwhile.
  if (!changes.file.is_open()) {
    KVBED_ASSIGN_OR_RETURN(changes.file, Reopen(file.fd(), file.path()));
  }
  return &changes;
}

Result<uint64_t> UnsyncedLog::WriteBegins(const File& file, uint64_t offset,
                                          uint64_t length_bytes) {
  KVBED_ASSIGN_OR_RETURN(FileChanges * tracked, Track(file));
  KVBED_ASSIGN_OR_RETURN(const struct stat info, StatOf(file.fd(), file.path()));
  Change change;
  change.offset = offset;
  change.old_bytes.resize(length_bytes);
  change.size_before = static_cast<uint64_t>(info.st_size);
  change.size_after = std::max(change.size_before, offset + length_bytes);
  KVBED_RETURN_IF_ERROR(ReadOld(tracked->file.fd(), offset, change.old_bytes));
  change.ticket = next_ticket_++;
  open_changes_[change.ticket] = {info.st_dev, info.st_ino};
  tracked->changes.push_back(std::move(change));
  return tracked->changes.back().ticket;
}

Result<uint64_t> UnsyncedLog::ResizeBegins(const File& file, uint64_t size_bytes) {
  KVBED_ASSIGN_OR_RETURN(const struct stat info, StatOf(file.fd(), file.path()));
  const auto size_before = static_cast<uint64_t>(info.st_size);
  // What a cut-off tail held is a write of nothing over it. Up to its last data: RocksDB cuts off
  // 64 MiB that it had reserved and never wrote, and giving the length back makes them zeroes.
  const uint64_t kept_bytes = std::min(size_bytes, size_before);
  KVBED_ASSIGN_OR_RETURN(FileChanges * tracked, Track(file));
  const uint64_t tail_bytes = DataBytesFrom(tracked->file.fd(), kept_bytes, size_before);
  KVBED_ASSIGN_OR_RETURN(const uint64_t ticket, WriteBegins(file, kept_bytes, tail_bytes));
  Change& change = files_.at({info.st_dev, info.st_ino}).changes.back();
  change.size_after = size_bytes;
  change.resize = true;
  return ticket;
}

void UnsyncedLog::ChangeEnds(uint64_t ticket, bool happened) {
  const auto key = open_changes_.find(ticket);
  KVBED_CHECK(key != open_changes_.end());
  std::deque<Change>& changes = files_.at(key->second).changes;
  const auto change = std::find_if(changes.begin(), changes.end(),
                                   [ticket](const Change& c) { return c.ticket == ticket; });
  change->ended = true;
  if (!happened) changes.erase(change);
  open_changes_.erase(key);
}

uint64_t UnsyncedLog::SyncBegins(const File& file) {
  const uint64_t ticket = next_ticket_++;
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return ticket;
  const auto tracked = files_.find({info.st_dev, info.st_ino});
  if (tracked == files_.end()) return ticket;
  syncs_[ticket] = tracked->first;
  for (Change& change : tracked->second.changes) {
    if (change.ended && change.covered_by == 0) change.covered_by = ticket;
  }
  return ticket;
}

void UnsyncedLog::SyncEnds(uint64_t ticket, bool ok) {
  const auto key = syncs_.find(ticket);
  if (key == syncs_.end()) return;
  const auto tracked = files_.find(key->second);
  syncs_.erase(key);
  if (tracked == files_.end()) return;
  std::deque<Change>& changes = tracked->second.changes;
  for (Change& change : changes) {
    if (change.covered_by != ticket) continue;
    (ok ? change.durable : change.lost) = true;
  }
  // A durable change stays while an older one may be undone: it must not be undone with it.
  while (!changes.empty() && changes.front().durable) changes.pop_front();
  if (changes.empty()) files_.erase(tracked);
}

Result<HeldFile> UnsyncedLog::Holding(const std::string& path) {
  HeldFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() && errno != ENOENT) {
    return StatusFromErrno(errno, fmt::format("hold {}", path));
  }
  return file;
}

void UnsyncedLog::Created(const std::string& path) {
  names_.push_back({.op = NameOp::kCreate, .path = path, .to = {}, .removed = {}});
}

void UnsyncedLog::Renamed(const std::string& from, const std::string& to, HeldFile replaced) {
  names_.push_back({.op = NameOp::kRename, .path = from, .to = to, .removed = std::move(replaced)});
}

void UnsyncedLog::Unlinked(const std::string& path, HeldFile removed) {
  names_.push_back({.op = NameOp::kUnlink, .path = path, .to = {}, .removed = std::move(removed)});
}

void UnsyncedLog::DirectorySynced(const std::string& path, bool ok) {
  const std::string directory = NormalDirectoryOf(path + "/.");
  for (NameChange& change : names_) {
    const std::string& name = change.op == NameOp::kRename ? change.to : change.path;
    if (NormalDirectoryOf(name) != directory || change.lost) continue;
    (ok ? change.durable : change.lost) = true;
  }
  std::erase_if(names_, [](const NameChange& change) { return change.durable; });
}

size_t UnsyncedLog::unsynced_changes() const {
  size_t count = names_.size();
  for (const auto& [key, file] : files_) {
    count += static_cast<size_t>(std::count_if(file.changes.begin(), file.changes.end(),
                                               [](const Change& c) { return !c.durable; }));
  }
  return count;
}

// Newest first, so that an undone write leaves what the write before it had left. A byte that a
// surviving write covers is left alone from there on.
Status UnsyncedLog::RollBackFile(FileChanges& file,
                                 const std::function<uint64_t(uint64_t)>& choose) {
  const int fd = file.file.fd();
  std::vector<uint64_t> kept_bytes(file.changes.size(), 0);
  std::vector<Range> kept;
  for (size_t i = file.changes.size(); i-- > 0;) {
    Change& change = file.changes[i];
    const uint64_t length_bytes = change.old_bytes.size();
    if (change.durable) {
      kept_bytes[i] = length_bytes;
    } else if (choose && !change.lost) {
      const uint64_t fate = choose(3);
      if (fate == 0) {
        change.durable = true;
        kept_bytes[i] = length_bytes;
      } else if (fate == 1 && !change.resize) {
        kept_bytes[i] = choose(length_bytes / kSectorBytes + 1) * kSectorBytes;
      }
    }
    KVBED_RETURN_IF_ERROR(WriteBackOutside(kept, fd, change.offset + kept_bytes[i],
                                           Bytes(change.old_bytes).subspan(kept_bytes[i])));
    if (kept_bytes[i] > 0) kept.push_back({change.offset, change.offset + kept_bytes[i]});
  }
  uint64_t size_bytes = file.changes.front().size_before;
  for (size_t i = 0; i < file.changes.size(); ++i) {
    const Change& change = file.changes[i];
    if (change.resize && change.durable) {
      size_bytes = change.size_after;
    } else if (!change.resize && kept_bytes[i] > 0) {
      size_bytes = std::max(size_bytes, change.offset + kept_bytes[i]);
    }
  }
  if (::ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) {
    return StatusFromErrno(errno, "give a file its length before the power cut");
  }
  return Status::Ok();
}

Status UnsyncedLog::RollBackName(NameChange& change) {
  switch (change.op) {
    case NameOp::kCreate:
      if (::unlink(change.path.c_str()) != 0) {
        return StatusFromErrno(errno, fmt::format("undo the creation of {}", change.path));
      }
      return Status::Ok();
    case NameOp::kRename:
      if (::rename(change.to.c_str(), change.path.c_str()) != 0) {
        return StatusFromErrno(errno, fmt::format("undo the renaming to {}", change.to));
      }
      return change.removed.is_open() ? BringBack(change.removed, change.to) : Status::Ok();
    case NameOp::kUnlink: return BringBack(change.removed, change.path);
  }
  return Status::Ok();
}

Status UnsyncedLog::RollBack(const std::function<uint64_t(uint64_t)>& choose) {
  KVBED_CHECK(open_changes_.empty());
  Status first;
  const auto note = [&first](const Status& status) {
    if (first.ok()) first = status;
  };
  // Bytes first: a file that is brought back then has the bytes that were durable.
  for (auto& [key, file] : files_) {
    if (!file.changes.empty()) note(RollBackFile(file, choose));
  }
  const auto lost = std::find_if(names_.begin(), names_.end(),
                                 [](const NameChange& change) { return change.lost; });
  auto survivors = static_cast<size_t>(lost - names_.begin());
  survivors = choose ? static_cast<size_t>(choose(survivors + 1)) : 0;
  for (size_t i = names_.size(); i-- > survivors;) note(RollBackName(names_[i]));
  files_.clear();
  names_.clear();
  syncs_.clear();
  return first;
}

}  // namespace kvbed
