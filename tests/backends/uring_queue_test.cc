// What only io_uring has: rings that are refused, limits, flags, small rings.
#include "backends/uring_queue.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/backends/io_engines.h"

namespace kvbed {
namespace {

// From here on io_uring_setup fails with `error` in this process, as under a container's profile.
bool RefuseUring(int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(filter), .filter = filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Runs `body` in a child process, which may then limit itself. The child's exit code says whether
// its checks passed.
template <class Body>
void InChild(Body body) {
  EXPECT_EXIT(
      {
        body();
        std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

void ExpectRefusal(int error, std::string_view words) {
  ASSERT_TRUE(RefuseUring(error));
  const Result<std::unique_ptr<Io>> by_name = OpenIo(IoEngine::kIoUring);
  EXPECT_TRUE(FailsWith(by_name.status(), StatusCode::kNotSupported, words));
  EXPECT_TRUE(FailsWith(by_name.status(), StatusCode::kNotSupported, "ioengine=psync"));
  ASSERT_OK_AND_ASSIGN(const auto io, OpenIo(IoEngine::kAuto));
  ASSERT_OK_AND_ASSIGN(const auto queue, io->OpenQueue({}));
  EXPECT_EQ(queue->info().engine, IoEngine::kPsync);
  EXPECT_NE(queue->info().engine_reason.find(words), std::string::npos)
      << queue->info().engine_reason;
  // And it works.
  TempDir folder;
  ASSERT_OK(PublishFile(*io, folder / "f", AsBytes("abc"), RenameMode::kNoReplace));
  EXPECT_EQ(Contents(folder / "f"), "abc");
}

TEST(UringRefusedDeathTest, AContainersProfileIsNamedAndAutoFallsBack) {
  InChild([] { ExpectRefusal(EPERM, "EPERM: a container's seccomp profile"); });
}

TEST(UringRefusedDeathTest, AMissingSystemCallIsNamedAndAutoFallsBack) {
  InChild([] { ExpectRefusal(ENOSYS, "ENOSYS"); });
}

TEST(UringRefusedDeathTest, AnOldKernelIsNamedAndAutoFallsBack) {
  InChild([] { ExpectRefusal(EINVAL, "EINVAL"); });
}

class UringQueueTest : public ::testing::Test {
 protected:
  void SetUp() override { KVBED_NEEDS_ENGINE(IoEngine::kIoUring); }
};

TEST_F(UringQueueTest, AutoTakesIoUring) {
  ASSERT_OK_AND_ASSIGN(const auto io, OpenIo(IoEngine::kAuto));
  ASSERT_OK_AND_ASSIGN(const auto queue, io->OpenQueue({}));
  EXPECT_EQ(queue->info().engine, IoEngine::kIoUring);
  EXPECT_EQ(queue->info().engine_reason, "");
}

TEST_F(UringQueueTest, SynchronousQueuesNeedNoRing) {
  ASSERT_OK_AND_ASSIGN(const auto io, OpenIo(IoEngine::kIoUring));
  ASSERT_OK_AND_ASSIGN(const auto queue, io->OpenQueue({.synchronous = true}));
  EXPECT_EQ(queue->info().engine, IoEngine::kPsync);
}

TEST_F(UringQueueTest, ARingWithoutTheNewFlagsSaysSo) {
  ASSERT_OK_AND_ASSIGN(const auto queue, OpenUringQueue({}, RingFlags::kNone));
  EXPECT_TRUE(queue->info().ring_flags.empty());
}

TEST_F(UringQueueTest, TheBestFlagsOfThisKernelAreInEffect) {
  ASSERT_OK_AND_ASSIGN(const auto queue, OpenUringQueue({}));
  const std::vector<std::string> flags = queue->info().ring_flags;
  const std::vector<std::string> best{"SINGLE_ISSUER", "DEFER_TASKRUN"};
  const std::vector<std::string> older{"COOP_TASKRUN"};
  EXPECT_TRUE(flags == best || flags == older || flags.empty());
}

TEST_F(UringQueueTest, HugeDepthsAreClampedToWhatTheKernelHas) {
  ASSERT_OK_AND_ASSIGN(const auto io, OpenIo(IoEngine::kIoUring));
  const auto queue = io->OpenQueue({.iodepth = 1'000'000});
  // As little memory may be locked as a kernel before 5.12 needs for it; then it says so.
  if (!queue.ok()) KVBED_SKIP_OR_FAIL(queue.status().message());
  TempDir folder;
  ASSERT_OK_AND_ASSIGN(const File file, io->Open(folder / "f", {.write = true, .create = true}));
  AlignedBuffer memory = Pattern(4096, 1);
  EXPECT_OK(MoveOne(**queue, Write(file, 0, memory.bytes())).status);
}

TEST_F(UringQueueTest, TheRegisteredMemoryMayEndAnywhere) {
  ASSERT_OK_AND_ASSIGN(const auto io, OpenIo(IoEngine::kIoUring));
  AlignedBuffer memory = Pattern(65536, 1);
  ASSERT_OK_AND_ASSIGN(const auto queue, io->OpenQueue({.memory = memory.bytes().first(5000)}));
  EXPECT_TRUE(queue->info().registered_buffers) << queue->info().registered_buffers_reason;
  TempDir folder;
  ASSERT_OK_AND_ASSIGN(const File file, io->Open(folder / "f", {.write = true, .create = true}));
  // Inside, over the end, behind it.
  std::vector<IoRequest> writes{Write(file, 0, memory.bytes().first(5000)),
                                Write(file, 5000, memory.bytes().subspan(4000, 2000)),
                                Write(file, 7000, memory.bytes().subspan(5000, 1000))};
  ASSERT_OK(MoveAll(*queue, writes));
  for (const IoRequest& write : writes) EXPECT_OK(write.status);
  const std::string_view text = AsText(memory.bytes());
  EXPECT_TRUE(Contents(folder / "f") == std::string(text.substr(0, 5000)) +
                                            std::string(text.substr(4000, 2000)) +
                                            std::string(text.substr(5000, 1000)));
}

// Like a user's shell after `ulimit -l 64`: 64 KiB may be locked, 16 MiB are asked for.
void LimitMemlockAndLoseRoot() {
  const rlimit limit{.rlim_cur = 65536, .rlim_max = 65536};
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &limit), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::setresuid(65534, 65534, 65534), 0);
  }
}

using UringQueueDeathTest = UringQueueTest;

TEST_F(UringQueueDeathTest, BeyondTheMemlockLimitItRunsUnregisteredAndSaysWhatWouldHelp) {
  TempDir folder;
  InChild([&folder] {
    const auto io = OpenIo(IoEngine::kIoUring).value();
    const File file = io->Open(folder / "f", {.write = true, .create = true}).value();
    LimitMemlockAndLoseRoot();
    AlignedBuffer memory = Pattern(16 << 20, 1);
    ASSERT_OK_AND_ASSIGN(const auto queue, io->OpenQueue({.memory = memory.bytes()}));
    const IoQueueInfo info = queue->info();
    EXPECT_FALSE(info.registered_buffers);
    for (const char* part : {"16777216 bytes must be locked", "65536 bytes soft",
                             "65536 bytes hard", "ulimit -l", "Cannot allocate memory"}) {
      EXPECT_NE(info.registered_buffers_reason.find(part), std::string::npos)
          << part << " in: " << info.registered_buffers_reason;
    }
    EXPECT_OK(MoveOne(*queue, Write(file, 0, memory.bytes())).status);
    EXPECT_OK(MoveOne(*queue, Read(file, 0, memory.bytes())).status);
  });
}

TEST_F(UringQueueDeathTest, AMemlockLimitThatSufficesIsNoMatter) {
  InChild([] {
    LimitMemlockAndLoseRoot();
    AlignedBuffer memory = Pattern(32768, 1);
    ASSERT_OK_AND_ASSIGN(const auto queue, OpenUringQueue({.memory = memory.bytes()}));
    EXPECT_TRUE(queue->info().registered_buffers) << queue->info().registered_buffers_reason;
  });
}

}  // namespace
}  // namespace kvbed
