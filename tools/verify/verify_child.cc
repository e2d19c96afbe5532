#include "tools/verify/verify_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <sstream>
#include <thread>
#include <utility>

#include "offload/clock.h"
#include "tools/interrupt.h"
#include "tools/verify/verify_worker.h"
#include "tools/write_all.h"

namespace kvbed {
namespace {

constexpr std::string_view kEnded = "ended ";
constexpr int kExitNotStarted = 127;

Status SendLine(int fd, std::string line, std::string_view what) {
  line += '\n';
  return WriteAll(fd, AsBytes(line), what);
}

// A line of standard input without what follows it, so that a worker inherits nothing half-read.
std::optional<std::string> NextJob() {
  std::string line;
  for (char c = 0;;) {
    const ssize_t got = ::read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    if (c == '\n') return line;
    line += c;
  }
}

// Starts the job in a worker, kills it after a while when the job says so, and waits for its end.
std::string RunJob(const std::string& line, const WorkerContext& context) {
  const pid_t pid = ::fork();
  if (pid < 0) return fmt::format("{}exit {}", kEnded, kExitNotStarted);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(RunVerifyWorker(line, context));
  }
  if (const auto delay = KilledAfter(line)) {
    std::this_thread::sleep_for(*delay);
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? fmt::format("{}signal {}", kEnded, WTERMSIG(status))
                             : fmt::format("{}exit {}", kEnded, WEXITSTATUS(status));
}

}  // namespace

int ServeVerifyJobs(const StoreSpec& spec, const StoreSettings& settings,
                    const StoreOpener& opener) {
  const WorkerContext context{spec, settings, opener, kChildReportFd};
  while (const auto line = NextJob()) {
    const std::string end = RunJob(*line, context);
    if (!SendLine(kChildReportFd, end, "report a job's end").ok()) return 1;
  }
  return 0;
}

Result<VerifyChild> VerifyChild::Start(std::vector<std::string> command, const StoreSpec& spec) {
  command.push_back("--store");
  command.push_back(spec.ToString());
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  int jobs[2], reports[2];
  if (::pipe2(jobs, O_CLOEXEC) != 0) return StatusFromErrno(errno, "make a pipe");
  if (::pipe2(reports, O_CLOEXEC) != 0) {
    const int error = errno;
    for (int fd : jobs) ::close(fd);
    return StatusFromErrno(error, "make a pipe");
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Only async-signal-safe calls until exec.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    const int report = ::fcntl(reports[1], F_DUPFD, kChildReportFd + 1);
    if (nowhere < 0 || report < 0 || ::dup2(jobs[0], STDIN_FILENO) < 0 ||
        ::dup2(nowhere, STDOUT_FILENO) < 0 || ::dup2(report, kChildReportFd) < 0) {
      ::_exit(kExitNotStarted);
    }
    ::close(report);
    ::execv(argv[0], argv.data());
    ::_exit(kExitNotStarted);
  }
  const int error = errno;
  ::close(jobs[0]);
  ::close(reports[1]);
  VerifyChild child(pid, jobs[1], reports[0]);
  if (pid < 0) return StatusFromErrno(error, "start a child process");
  return child;
}

VerifyChild::VerifyChild(VerifyChild&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      jobs_(std::exchange(other.jobs_, -1)),
      reports_(std::exchange(other.reports_, -1)),
      buffer_(std::move(other.buffer_)),
      end_(other.end_) {}

VerifyChild::~VerifyChild() {
  if (jobs_ >= 0) ::close(jobs_);
  if (reports_ >= 0) ::close(reports_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status VerifyChild::Send(const std::string& job) {
  return SendLine(jobs_, job, "send a job to the child process");
}

Result<std::optional<std::string>> VerifyChild::Next(std::chrono::seconds patience) {
  const uint64_t until_ns =
      MonotonicNs() + static_cast<uint64_t>(std::chrono::nanoseconds(patience).count());
  for (size_t end; (end = buffer_.find('\n')) == buffer_.npos;) {
    if (Interrupted()) return InterruptedStatus();
    if (MonotonicNs() > until_ns) {
      return Status::IoError(
          fmt::format("the child process said nothing for {} s", patience.count()));
    }
    struct pollfd wait = {.fd = reports_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wait, 1, 1000);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    char part[4096];
    const ssize_t got = ::read(reports_, part, sizeof(part));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Status::IoError("the child process ended by itself or didn't start");
    buffer_.append(part, static_cast<size_t>(got));
  }
  const size_t end = buffer_.find('\n');
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  if (!line.starts_with(kEnded)) return std::optional(std::move(line));
  std::istringstream words(line.substr(kEnded.size()));
  std::string how;
  words >> how >> end_.code;
  end_.by_signal = how == "signal";
  return std::optional<std::string>();
}

}  // namespace kvbed
