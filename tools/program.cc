#include "tools/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tools/interrupt.h"

extern char** environ;

namespace kvbed {
namespace {

// Memory that a program can write to as if it were a file, so that nothing has to be read while it
// runs.
class OutputFile {
 public:
  OutputFile() : fd_(::memfd_create("output", MFD_CLOEXEC)) {}
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  std::string Contents() const {
    std::string text;
    char part[4096];
    for (off_t at = 0;;) {
      const ssize_t got = ::pread(fd_, part, sizeof(part), at);
      if (got <= 0) return text;
      text.append(part, static_cast<size_t>(got));
      at += got;
    }
  }

 private:
  int fd_;
};

Result<pid_t> Start(const std::vector<std::string>& argv, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return Status::NotFound(fmt::format("{} is not installed", argv[0]));
  if (error != 0) return StatusFromErrno(error, fmt::format("start {}", argv[0]));
  return pid;
}

// Waits for the program; passes an interruption on to it once.
int WaitFor(pid_t pid) {
  int status = 0;
  bool told = false;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    if (!Interrupted() || told) continue;
    ::kill(pid, SIGINT);
    told = true;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<ProgramResult> RunProgram(const std::vector<std::string>& argv) {
  const OutputFile out, err;
  if (out.fd() < 0 || err.fd() < 0) return StatusFromErrno(errno, "memfd_create");
  KVBED_ASSIGN_OR_RETURN(const pid_t pid, Start(argv, out.fd(), err.fd()));
  ProgramResult result;
  result.exit_code = WaitFor(pid);
  if (Interrupted()) return InterruptedStatus();
  result.out = out.Contents();
  result.err = err.Contents();
  return result;
}

}  // namespace kvbed
