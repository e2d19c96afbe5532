// Child processes: their streams, how they end, and that they end with us.
#include "backends/child_process.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "offload/clock.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

constexpr uint64_t kLongNs = 60'000'000'000;

std::unique_ptr<ChildProcess> Shell(const std::string& script) {
  auto child = ChildProcess::Start("sh", {"sh", "-c", script});
  EXPECT_OK(child);
  return child.ok() ? std::move(*child) : nullptr;
}

std::string ReadAll(int fd) {
  std::string text;
  char part[256];
  for (;;) {
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, 60'000);
    const ssize_t got = ::read(fd, part, sizeof(part));
    if (got <= 0) return text;
    text.append(part, static_cast<size_t>(got));
  }
}

// Neither running nor waiting to be reaped: a process may be reaped by nobody where the first one
// of a container doesn't.
bool Runs(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  file >> number >> name >> state;
  return file && state != "Z" && state != "X";
}

TEST(ChildProcessTest, StreamsGoBothWays) {
  const auto child = Shell("read line; echo got $line; echo oops >&2");
  ASSERT_EQ(::write(child->input(), "this\n", 5), 5);
  EXPECT_EQ(ReadAll(child->output()), "got this\n");
  EXPECT_EQ(ReadAll(child->errors()), "oops\n");
  ASSERT_TRUE(child->WaitForEnd(MonotonicNs() + kLongNs));
  EXPECT_EQ(child->HowItEnded(), "exited with code 0");
  EXPECT_EQ(child->pid(), 0);
}

TEST(ChildProcessTest, EndsAreTold) {
  const auto three = Shell("exit 3");
  ASSERT_TRUE(three->WaitForEnd(MonotonicNs() + kLongNs));
  EXPECT_EQ(three->HowItEnded(), "exited with code 3");
  const auto killed = Shell("kill -ABRT $$");
  ASSERT_TRUE(killed->WaitForEnd(MonotonicNs() + kLongNs));
  EXPECT_EQ(killed->HowItEnded(), "was killed by signal 6 (Aborted)");
  const auto running = Shell("sleep 1000");
  EXPECT_FALSE(running->WaitForEnd(MonotonicNs()));
  EXPECT_EQ(running->HowItEnded(), "");
}

TEST(ChildProcessTest, AMissingProgramIsNotFound) {
  EXPECT_TRUE(FailsWith(StatusOf(ChildProcess::Start("no-such-program", {"x"})),
                        StatusCode::kNotFound, "no-such-program"));
  EXPECT_TRUE(FailsWith(StatusOf(ChildProcess::Start("/etc/passwd", {"x"})), StatusCode::kIoError,
                        "start /etc/passwd"));
}

TEST(ChildProcessTest, ItsChildrenGoWithItAndNoZombieIsLeft) {
  auto child = Shell("sleep 1000 & echo $!; wait");
  std::string text;
  while (text.find('\n') == std::string::npos) {
    pollfd wait{.fd = child->output(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&wait, 1, 60'000), 1);
    char c;
    if (::read(child->output(), &c, 1) == 1) text += c;
  }
  const int grandchild = std::stoi(text);
  const int pid = child->pid();
  EXPECT_TRUE(Runs(pid) && Runs(grandchild));
  child.reset();
  EXPECT_TRUE(::kill(pid, 0) != 0 && errno == ESRCH);
  for (int tries = 0; tries < 6000 && Runs(grandchild); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(Runs(grandchild));
}

TEST(ChildProcessTest, WhatIsIgnoredHereIsNotThere) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const auto child = Shell("kill -PIPE $$; echo survived");
  ASSERT_TRUE(child->WaitForEnd(MonotonicNs() + kLongNs));
  std::signal(SIGPIPE, before);
  EXPECT_EQ(child->HowItEnded(), "was killed by signal 13 (Broken pipe)");
}

TEST(ChildProcessTest, ItDiesWithItsParent) {
  int tells[2];
  ASSERT_EQ(::pipe(tells), 0);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    auto child = ChildProcess::Start("sleep", {"sleep", "1000"});
    const int pid = child.ok() ? (*child)->pid() : -1;
    [[maybe_unused]] const ssize_t told = ::write(tells[1], &pid, sizeof(pid));
    ::raise(SIGKILL);
  }
  int pid = 0;
  ASSERT_EQ(::read(tells[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  ::close(tells[0]);
  ::close(tells[1]);
  ASSERT_GT(pid, 0);
  ::waitpid(parent, nullptr, 0);
  for (int tries = 0; tries < 6000 && Runs(pid); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(Runs(pid));
}

}  // namespace
}  // namespace kvbed
