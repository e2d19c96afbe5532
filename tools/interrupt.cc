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

// A signal that this process was started to ignore (nohup, a shell's background job) stays ignored.
void Install(void (*handler)(int)) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = handler;
    ::sigaction(signal, &action, nullptr);
  }
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
