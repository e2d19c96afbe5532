#include "backends/disk_reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "backends/disk_space.h"
#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

uint64_t AvailableOrZero(const std::string& path) {
  const auto available = AvailableBytes(path);
  return available.ok() ? *available : 0;
}

}  // namespace

void DiskReserve::Take() const {
  const int fd =
      ::open(path_.c_str(), O_CLOEXEC | O_CREAT | O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (fd < 0) return;
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    const auto size = static_cast<uint64_t>(info.st_size);
    const uint64_t wanted =
        std::min(kBytes, size + AvailableOrZero(path_) / kPageBytes * kPageBytes);
    if (wanted > size && ::fallocate(fd, 0, 0, static_cast<off_t>(wanted)) != 0 && size == 0) {
      ::unlink(path_.c_str());
    }
  }
  ::close(fd);
}

void DiskReserve::ReleaseWhenFull() const {
  if (AvailableOrZero(path_) < kBytes) ::unlink(path_.c_str());
}

}  // namespace kvbed
