// The exit codes of every subcommand, and how a Status becomes one.
#pragma once

#include "offload/status.h"

namespace kvbed {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailedCheck = 1,  // a committed record or a run failed a check
  kExitUsage = 2,        // unknown option, nonsense value
  kExitNoVerdict = 3,    // the verdict that was asked for could not be given
  kExitUnusable = 4,     // I/O error, resource, unusable input file
};

// Invalid arguments are usage errors; everything else that a Status can say is 4. A command that
// knows better (a snapshot of another model is 3, a damaged record 1) says so itself.
inline ExitCode ExitCodeFor(const Status& status) {
  if (status.ok()) return kExitOk;
  return status.code() == StatusCode::kInvalidArgument ? kExitUsage : kExitUnusable;
}

}  // namespace kvbed
