#include "tools/bus_error.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "tools/exit_code.h"

namespace kvbed {
namespace {

constexpr std::string_view kBusErrorMessage =
    "kvbed: a model file can't be read to its end: it was cut or replaced meanwhile, or its disk "
    "failed (see dmesg); get the file whole and try again\n";

// Nothing that a signal handler may not call.
void HandleBusError(int) {
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, kBusErrorMessage.data(), kBusErrorMessage.size());
  ::_exit(kExitUnusable);
}

}  // namespace

void EndOnBusError() {
  struct sigaction action {};
  action.sa_handler = HandleBusError;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace kvbed
