#include "engine/model/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace kvbed {
namespace {

// Closes a descriptor that was only read from, where close cannot lose anything.
struct ReadDescriptor {
  int fd;
  ~ReadDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // Non-blocking, so that a FIFO is refused below and not waited for.
  const ReadDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return StatusFromErrno(errno, fmt::format("open {}", path));
  struct stat info = {};
  if (::fstat(file.fd, &info) != 0) return StatusFromErrno(errno, fmt::format("stat {}", path));
  if (S_ISDIR(info.st_mode))
    return Status::InvalidArgument(fmt::format("{} is a directory, not a file", path));
  if (!S_ISREG(info.st_mode))
    return Status::InvalidArgument(fmt::format("{} is no regular file", path));
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile(path, nullptr, 0);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED)
    return StatusFromErrno(errno, fmt::format("map {} bytes of {}", size, path));
  return MappedFile(path, address, size);
}

MappedFile::MappedFile(std::string path, void* address, size_t size)
    : path_(std::move(path)), address_(address), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      address_(std::exchange(other.address_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) KVBED_CHECK(::munmap(address_, size_) == 0);
}

}  // namespace kvbed
