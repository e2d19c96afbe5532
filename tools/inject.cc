#include "tools/inject.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <random>
#include <utility>

namespace kvbed {
namespace {

constexpr std::array<std::pair<std::string_view, Injection>, 6> kInjections{{
    {"flip", Injection::kFlip},
    {"swap", Injection::kSwap},
    {"stale", Injection::kStale},
    {"truncate", Injection::kTruncate},
    {"skip", Injection::kSkip},
    {"shift", Injection::kShift},
}};

constexpr size_t kSectorBytes = 512;

// One store file, opened for damage: buffered, and synced before it is closed.
class DamagedFile {
 public:
  static Result<DamagedFile> Open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) return StatusFromErrno(errno, fmt::format("open {} to damage it", path));
    return DamagedFile(fd, path);
  }
  DamagedFile(DamagedFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  DamagedFile& operator=(DamagedFile&&) = delete;
  ~DamagedFile() {
    if (fd_ >= 0) ::close(fd_);
  }

  Result<std::string> Read(uint64_t offset, uint64_t size) const {
    std::string bytes(size, '\0');
    for (size_t done = 0; done < size;) {
      const ssize_t got =
          ::pread(fd_, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
      if (got <= 0) return StatusFromErrno(got < 0 ? errno : EIO, fmt::format("read {}", path_));
      done += static_cast<size_t>(got);
    }
    return bytes;
  }
  Status Write(uint64_t offset, std::string_view bytes) const {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t put = ::pwrite(fd_, bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(offset + done));
      if (put <= 0) return StatusFromErrno(put < 0 ? errno : EIO, fmt::format("write {}", path_));
      done += static_cast<size_t>(put);
    }
    return Sync();
  }
  Status Truncate(uint64_t size) const {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) {
      return StatusFromErrno(errno, fmt::format("truncate {}", path_));
    }
    return Sync();
  }

 private:
  DamagedFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Status Sync() const {
    if (::fsync(fd_) != 0) return StatusFromErrno(errno, fmt::format("fsync {}", path_));
    return Status::Ok();
  }

  int fd_;
  std::string path_;
};

Result<std::string> ReadRecord(const RecordLocation& at) {
  KVBED_ASSIGN_OR_RETURN(const DamagedFile file, DamagedFile::Open(at.path));
  return file.Read(at.offset, at.size_bytes);
}

Status WriteRecord(const RecordLocation& at, std::string_view bytes) {
  KVBED_ASSIGN_OR_RETURN(const DamagedFile file, DamagedFile::Open(at.path));
  return file.Write(at.offset, bytes);
}

Result<std::string> Flip(const RecordLocation& at, const FlipTarget& flip) {
  KVBED_ASSIGN_OR_RETURN(std::string record, ReadRecord(at));
  record[flip.byte] = static_cast<char>(record[flip.byte] ^ (1 << flip.bit));
  KVBED_RETURN_IF_ERROR(WriteRecord(at, record));
  return fmt::format("flipped bit {} of byte {} of block {}'s record ({} at {})", flip.bit,
                     flip.byte, flip.block, at.path, at.offset);
}

Result<std::string> Swap(std::span<const RecordLocation> blocks, std::mt19937_64& random) {
  if (blocks.size() < 2) {
    return Status::InvalidArgument(
        "--inject swap needs a snapshot of two blocks or more: use a longer prompt or a smaller "
        "--block-tokens");
  }
  const size_t first = random() % (blocks.size() - 1);
  KVBED_ASSIGN_OR_RETURN(const std::string one, ReadRecord(blocks[first]));
  KVBED_ASSIGN_OR_RETURN(const std::string other, ReadRecord(blocks[first + 1]));
  KVBED_RETURN_IF_ERROR(WriteRecord(blocks[first], other));
  KVBED_RETURN_IF_ERROR(WriteRecord(blocks[first + 1], one));
  return fmt::format("swapped the records of blocks {} and {}", first, first + 1);
}

Result<std::string> Stale(const InjectionTarget& target) {
  KVBED_CHECK(target.older_tail.has_value());
  KVBED_ASSIGN_OR_RETURN(const std::string older, ReadRecord(*target.older_tail));
  KVBED_RETURN_IF_ERROR(WriteRecord(target.blocks.back(), older));
  return fmt::format("put the earlier state of block {} in the place of its newer one",
                     target.blocks.size() - 1);
}

Result<std::string> Truncate(std::span<const RecordLocation> blocks) {
  size_t last = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].offset >= blocks[last].offset) last = i;
  }
  const RecordLocation& at = blocks[last];
  const uint64_t size = at.offset + at.size_bytes / 2;
  KVBED_ASSIGN_OR_RETURN(const DamagedFile file, DamagedFile::Open(at.path));
  KVBED_RETURN_IF_ERROR(file.Truncate(size));
  return fmt::format("cut {} to {} bytes, in the middle of block {}'s record", at.path, size, last);
}

Result<std::string> Shift(const RecordLocation& at, size_t block) {
  KVBED_ASSIGN_OR_RETURN(const std::string record, ReadRecord(at));
  const std::string shifted =
      std::string(kSectorBytes, '\0') + record.substr(0, record.size() - kSectorBytes);
  KVBED_RETURN_IF_ERROR(WriteRecord(at, shifted));
  return fmt::format("moved block {}'s record {} bytes on ({} at {})", block, kSectorBytes, at.path,
                     at.offset);
}

}  // namespace

Result<Injection> ParseInjection(const std::string& text) {
  for (const auto& [name, injection] : kInjections) {
    if (name == text) return injection;
  }
  return Status::InvalidArgument(fmt::format(
      "--inject takes one of flip, swap, stale, truncate, skip, shift, not '{}'", text));
}

Result<std::string> InjectDamage(Injection injection, const InjectionTarget& target) {
  KVBED_CHECK(!target.blocks.empty());
  std::mt19937_64 random(target.seed);
  const size_t block = random() % target.blocks.size();
  switch (injection) {
    case Injection::kFlip: return Flip(target.blocks[target.flip.block], target.flip);
    case Injection::kSwap: return Swap(target.blocks, random);
    case Injection::kStale: return Stale(target);
    case Injection::kTruncate: return Truncate(target.blocks);
    case Injection::kShift: return Shift(target.blocks[block], block);
    case Injection::kSkip: return std::string("the restore is told to copy nothing");
    case Injection::kNone: break;
  }
  return std::string();
}

}  // namespace kvbed
