#include "tools/interrupt.h"

#include <csignal>
#include <cstdlib>

namespace kvbed {
namespace {

// Written by the signal handler, which can reach nothing but a static object.
volatile std::sig_atomic_t g_signal = 0;

constexpr const char* kMessage = "interrupted";

void Handle(int signal) {
  if (g_signal != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  g_signal = signal;
}

void Install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() { Install(Handle); }
InterruptGuard::~InterruptGuard() { Install(SIG_DFL); }

bool Interrupted() { return g_signal != 0; }

Status InterruptedStatus() { return Status::IoError(kMessage); }
bool IsInterrupted(const Status& status) { return status.message().ends_with(kMessage); }

void DieInterrupted() {
  const int signal = g_signal != 0 ? static_cast<int>(g_signal) : SIGINT;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::abort();
}

}  // namespace kvbed
