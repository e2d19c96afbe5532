// A campaign's second process: this command once more, as the hidden `kvbed verify-child`, that
// forks a worker for each job while it has no threads. Jobs come as lines, what the worker does
// goes back as lines; verify_worker.h does the jobs, this is both ends of the pipes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "offload/status.h"
#include "tools/verify/store_opener.h"

namespace kvbed {

// Where a child writes its lines; jobs come on its standard input.
inline constexpr int kChildReportFd = 3;

// The child's side: serves jobs on `spec` until its input ends, and returns the exit code. Each
// ends with the line "ended exit N" or "ended signal N".
int ServeVerifyJobs(const StoreSpec& spec, const StoreSettings& settings,
                    const StoreOpener& opener);

// How a job ended.
struct JobEnd {
  bool by_signal = false;
  int code = 0;  // of the exit, or the signal's number
  bool operator==(const JobEnd&) const = default;
};

class VerifyChild {
 public:
  // `command` with "--store SPEC" added. An I/O error when it can't be started.
  static Result<VerifyChild> Start(std::vector<std::string> command, const StoreSpec& spec);
  VerifyChild(VerifyChild&& other) noexcept;
  VerifyChild& operator=(VerifyChild&&) = delete;
  ~VerifyChild();  // kills it

  Status Send(const std::string& job);
  // The next line of the job; nullopt when it has ended, which end() then tells. An I/O error when
  // the child itself has ended or says nothing for `patience`; the interrupted status.
  Result<std::optional<std::string>> Next(
      std::chrono::seconds patience = std::chrono::seconds(120));
  JobEnd end() const { return end_; }

 private:
  VerifyChild(pid_t pid, int jobs, int reports) : pid_(pid), jobs_(jobs), reports_(reports) {}

  pid_t pid_;
  int jobs_;
  int reports_;
  std::string buffer_;
  JobEnd end_;
};

}  // namespace kvbed
