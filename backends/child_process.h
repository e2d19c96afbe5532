// A child process with its standard streams in our hands, in a process group of its own. It dies
// with this process and leaves no zombie. It doesn't know what is said over the streams.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "offload/status.h"

namespace kvbed {

// A file descriptor that is closed with it.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept;
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd() { Close(); }
  int get() const { return fd_; }
  void Close();

 private:
  int fd_ = -1;
};

// Any thread may call any of it.
class ChildProcess {
 public:
  // `program` is looked up in PATH. Not found when there is none; else an I/O error.
  static Result<std::unique_ptr<ChildProcess>> Start(const std::string& program,
                                                     const std::vector<std::string>& argv);
  // SIGKILL to what still runs of its group, and waits for its end.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Ours, none of them blocking: a socket to its standard input, pipes from its output and errors.
  int input() const { return input_.get(); }
  int output() const { return output_.get(); }
  int errors() const { return errors_.get(); }

  int pid() const;  // 0 when it has ended
  // SIGKILL to its process group, unless it has ended.
  void Kill();
  // False when it runs still at `deadline_ns` (CLOCK_MONOTONIC).
  bool WaitForEnd(uint64_t deadline_ns);
  // "exited with code 3", "was killed by signal 11 (Segmentation fault)"; empty while it runs.
  std::string HowItEnded() const;

 private:
  ChildProcess() = default;
  void Live(const std::string& program, const std::vector<std::string>& argv, int input, int output,
            int errors);
  void Reap(pid_t pid);

  OwnedFd input_, output_, errors_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool started_ = false;
  Status start_status_;
  pid_t pid_ = 0;
  bool ended_ = false;
  int wait_status_ = 0;
  std::thread keeper_;
};

}  // namespace kvbed
