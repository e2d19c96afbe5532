// The memory of a restore: beyond weights and pool it doesn't grow with the context.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

constexpr int64_t kRestoreAllowedBytes = int64_t{64} << 20;

// The largest resident size of a resume of `spec`, in bytes.
int64_t PeakOfResume(const std::string& spec) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl(KVBED_COMMAND, KVBED_COMMAND, "resume", "-m", "toy:8m", "--store", spec.c_str(), "-n",
            "1", "--json", "/dev/null", "-o", "jsonl", nullptr);
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(pid, &status, 0, &usage), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << spec;
  return int64_t{usage.ru_maxrss} * 1024;
}

TEST(RestoreMemory, IsThePoolsWhateverTheContext) {
  const TempDir folder;
  const std::string store = "slab:" + (folder / "kv");
  int64_t peak_bytes[2] = {}, pool_bytes[2] = {};
  const char* const contexts[2] = {"256", "4096"};
  for (int i = 0; i < 2; ++i) {
    const CommandRun run = RunKvbed({"snapshot", "-m", "toy:8m", "-c", contexts[i], "-n", "1",
                                     "--store", store, "--name", contexts[i], "-o", "json"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    pool_bytes[i] = run.Json().at("snapshot").at("stored_bytes").get<int64_t>();
  }
  for (int i = 0; i < 2; ++i) peak_bytes[i] = PeakOfResume(store + "#" + contexts[i]);
  const int64_t more_pool = pool_bytes[1] - pool_bytes[0];
  const int64_t more = peak_bytes[1] - peak_bytes[0];
  EXPECT_LE(more - more_pool, kRestoreAllowedBytes);
  // The measure sees the pool at all.
  EXPECT_GT(more, more_pool / 2);
}

}  // namespace
}  // namespace kvbed
