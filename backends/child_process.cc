#include "backends/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>

#include "offload/clock.h"

namespace kvbed {
namespace {

struct StreamEnds {
  OwnedFd ours;
  OwnedFd childs;
};

Result<StreamEnds> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return StatusFromErrno(errno, "make a pipe");
  StreamEnds pipe{OwnedFd(ends[0]), OwnedFd(ends[1])};
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
    return StatusFromErrno(errno, "set up a pipe");
  }
  return pipe;
}

// A socket can be written to without SIGPIPE.
Result<StreamEnds> MakeSocket() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return StatusFromErrno(errno, "make a socket pair");
  }
  return StreamEnds{OwnedFd(ends[0]), OwnedFd(ends[1])};
}

struct ExecPlan {
  const char* program;
  char* const* argv;
  int streams[3];  // to become its 0, 1 and 2
  int complaint;   // where the errno goes when it can't be executed
  pid_t parent;
};

// Between vfork and exec: system calls only, and nothing of the parent's memory is changed.
[[noreturn]] void BecomeProgram(const ExecPlan& plan) {
  ::setpgid(0, 0);
  // Of the thread that made it, which therefore lives as long as the child.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);
  // What this process ignores, and its mask, would be inherited.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (const int number : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
    ::sigaction(number, &standard, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // By way of numbers above 2, so that no dup2 closes what another one needs.
  int high[3];
  for (int i = 0; i < 3; ++i) high[i] = ::fcntl(plan.streams[i], F_DUPFD_CLOEXEC, 3);
  for (int i = 0; i < 3; ++i) ::dup2(high[i], i);
  ::close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  ::execvp(plan.program, plan.argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(plan.complaint, &error, sizeof(error));
  ::_exit(127);
}

// vfork: a fork would copy what is pinned for the I/O engine, gigabytes of it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
[[gnu::noinline]] pid_t StartProgram(const ExecPlan& plan) {
  const pid_t pid = ::vfork();
  if (pid == 0) BecomeProgram(plan);
  return pid;
}
#pragma GCC diagnostic pop

}  // namespace

OwnedFd::OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void OwnedFd::Close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::string& program,
                                                          const std::vector<std::string>& argv) {
  KVBED_ASSIGN_OR_RETURN(StreamEnds input, MakeSocket());
  KVBED_ASSIGN_OR_RETURN(StreamEnds output, MakePipe());
  KVBED_ASSIGN_OR_RETURN(StreamEnds errors, MakePipe());
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  child->input_ = std::move(input.ours);
  child->output_ = std::move(output.ours);
  child->errors_ = std::move(errors.ours);
  ChildProcess* const self = child.get();
  const int streams[3] = {input.childs.get(), output.childs.get(), errors.childs.get()};
  std::unique_lock lock(self->mutex_);
  self->keeper_ = std::thread([self, &program, &argv, streams] {
    self->Live(program, argv, streams[0], streams[1], streams[2]);
  });
  self->changed_.wait(lock, [self] { return self->started_; });
  if (self->start_status_.ok()) return child;
  Status status = self->start_status_;
  lock.unlock();
  return status;
}

ChildProcess::~ChildProcess() {
  Kill();
  keeper_.join();
}

// The thread that makes the child and stays until it has ended. The arguments are in place until
// `started_` is set.
void ChildProcess::Live(const std::string& program, const std::vector<std::string>& argv, int input,
                        int output, int errors) {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t pid = -1;
  Status status;
  int complaint[2];
  if (::pipe2(complaint, O_CLOEXEC) != 0) {
    status = StatusFromErrno(errno, "make a pipe");
  } else {
    OwnedFd told(complaint[0]), tells(complaint[1]);
    pid = StartProgram({.program = program.c_str(),
                        .argv = arguments.data(),
                        .streams = {input, output, errors},
                        .complaint = complaint[1],
                        .parent = ::getpid()});
    int error = pid < 0 ? errno : 0;
    tells.Close();
    if (pid >= 0 && ::read(told.get(), &error, sizeof(error)) == sizeof(error)) {
      ::waitpid(pid, nullptr, 0);
      pid = -1;
    }
    if (error == ENOENT) {
      status = Status::NotFound(fmt::format("there is no program {}", program));
    } else if (error != 0) {
      status = Status::IoError(fmt::format("start {}: {}", program, std::strerror(error)));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    started_ = true;
    start_status_ = status;
    pid_ = pid < 0 ? 0 : pid;
    ended_ = pid < 0;
    changed_.notify_all();
  }
  if (pid >= 0) Reap(pid);
}

void ChildProcess::Reap(pid_t pid) {
  siginfo_t info;
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  const std::lock_guard lock(mutex_);
  // While it is a zombie its number is nobody else's. What it started doesn't outlive it.
  ::kill(-pid, SIGKILL);
  while (::waitpid(pid, &wait_status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  ended_ = true;
  changed_.notify_all();
}

int ChildProcess::pid() const {
  const std::lock_guard lock(mutex_);
  return pid_;
}

void ChildProcess::Kill() {
  const std::lock_guard lock(mutex_);
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

bool ChildProcess::WaitForEnd(uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  const uint64_t now_ns = MonotonicNs();
  const auto wait = std::chrono::nanoseconds(deadline_ns > now_ns ? deadline_ns - now_ns : 0);
  return changed_.wait_for(lock, wait, [this] { return ended_; });
}

std::string ChildProcess::HowItEnded() const {
  const std::lock_guard lock(mutex_);
  if (!ended_) return {};
  if (WIFEXITED(wait_status_)) {
    return fmt::format("exited with code {}", WEXITSTATUS(wait_status_));
  }
  const int number = WTERMSIG(wait_status_);
  return fmt::format("was killed by signal {} ({})", number, ::strsignal(number));
}

}  // namespace kvbed
