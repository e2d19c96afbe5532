#include "tools/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tools/write_all.h"

namespace kvbed {

void ReserveStandardStreams() {
  // The lowest free number is given out, so that each open fills the first gap.
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    [[maybe_unused]] const int opened =
        ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void WriteToStandardError(std::string_view text) {
  WriteAll(STDERR_FILENO, AsBytes(text), "write to standard error").IgnoreError();
}

void Complain(std::string_view message) {
  WriteToStandardError("kvbed: " + Printable(message) + "\n");
}

Status Print(std::string_view text) {
  if (std::fflush(stdout) != 0) return StatusFromErrno(errno, "write to standard output");
  return WriteAll(STDOUT_FILENO, AsBytes(text), "write to standard output");
}

std::string Printable(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    if (byte == '\n') {
      shown += "\\n";
    } else if (byte == '\t') {
      shown += "\\t";
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      shown +=
          fmt::format("\\u00{:02x}", next);  // a control character of Unicode, U+0080 to U+009F
      ++i;
    } else if (byte < 0x20 || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += text[i];
    }
  }
  return shown;
}

}  // namespace kvbed
