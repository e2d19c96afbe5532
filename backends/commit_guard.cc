#include "backends/commit_guard.h"

#include <fmt/format.h>

namespace kvbed {

void CommitGuard::NoteChange(const FolderChange& change) {
  if (change.settled && change.status.code() != StatusCode::kIoError) return;
  failure_ = Status::IoError(
      fmt::format("{}: nothing more is committed after an earlier failure ({}): reopen the store",
                  store_, change.status.message()));
}

}  // namespace kvbed
