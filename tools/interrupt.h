// Ctrl-C, and a terminal that goes away, as a flag that long work looks at, so that stores and
// temporary folders are left in order.
#pragma once

#include "offload/status.h"

namespace kvbed {

// Takes SIGINT, SIGTERM and SIGHUP over while it lives, but for those that are ignored: the first
// sets the flag, a second ends the process at once. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

bool Interrupted();

// The error that interrupted work returns, and whether an error is that one.
Status InterruptedStatus();
bool IsInterrupted(const Status& status);

// Ends the process by the signal that came, as a shell expects of an interrupted command.
[[noreturn]] void DieInterrupted();

}  // namespace kvbed
