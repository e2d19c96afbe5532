#include "tools/write_all.h"

#include <unistd.h>

#include <cerrno>

namespace kvbed {

Status WriteAll(int fd, Bytes bytes, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return StatusFromErrno(errno, what);
    }
  }
  return Status::Ok();
}

}  // namespace kvbed
