// The jobs of a campaign's child process, each in a process of its own. What it does to the store
// it says first, as a line of text; who keeps count of that is the parent.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "offload/fault_plan.h"
#include "offload/status.h"
#include "tools/verify/store_opener.h"

namespace kvbed {

struct WorkerContext {
  const StoreSpec& spec;
  const StoreSettings& settings;
  const StoreOpener& opener;
  int report_fd;
};

// The lines of a worker.
inline constexpr std::string_view kChangeBegins = "begin ";  // and a SnapshotChange's line
inline constexpr std::string_view kChangeDone = "done";
inline constexpr std::string_view kChangeRefused = "no ";    // and the error; it goes on
inline constexpr std::string_view kJobFailed = "failed ";    // and the error
inline constexpr std::string_view kJobRefused = "refused ";  // and why the store couldn't be opened
inline constexpr std::string_view kJobSays = "says ";        // and what was found wrong
inline constexpr std::string_view kNotLimited = "unlimited";  // it took all and refused nothing
inline constexpr std::string_view kServedWrong = "wrong";     // once for each record

// Changes snapshots until it is killed: by itself right before the `first`th operation of the kind
// `target` on the store's files, by the child after `after_us`, or by itself after `changes`.
struct ChangesJob {
  uint64_t seed = 0;
  std::optional<FaultTarget> target{};
  uint64_t first = 0;
  std::optional<uint64_t> after_us{};
  uint64_t changes = 8;

  std::string Line() const;
};

// Takes snapshots until the store refuses one, and sees that this harmed nothing: what was
// committed before is whole, what was refused isn't there, and when some is removed there is room
// again.
struct FillJob {
  uint64_t seed = 0;
  uint64_t snapshots_max = 0;      // "failed" when so many were taken
  uint64_t file_bytes_max = 0;     // RLIMIT_FSIZE; 0: none
  std::string small_filesystem{};  // a tmpfs of so many bytes is mounted here, for this process
  uint64_t small_filesystem_bytes = 0;

  std::string Line() const;
};

// Takes some snapshots of its own beside another process that has the store open, and checks them.
struct ShareJob {
  uint64_t seed = 0;
  uint64_t changes = 12;

  std::string Line() const;
};

// Does the job of this line and returns the exit code: 0 unless it couldn't be done.
int RunVerifyWorker(const std::string& line, const WorkerContext& context);

// After which time the child is to kill the worker.
std::optional<std::chrono::microseconds> KilledAfter(const std::string& line);

}  // namespace kvbed
