// The proof on filesystems that the test mounts: loop devices, overlay, bind, memory, dm and NFS,
// as far as the kernel and the user may. The mounts are the test process's own, and end with it.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "backends/io.h"
#include "offload/aligned_buffer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/moved_bytes.h"
#include "tools/bench/raw_transfer.h"
#include "tools/program.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMovedBlock = 1 << 20;
constexpr uint64_t kMovedBlocks = 24;

class MountedProof : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      GTEST_SKIP() << "can't have mounts of its own: " << std::strerror(errno);
    }
    below_ = DeviceCounters::For(dir_.path(), {});
  }
  void TearDown() override {
    for (auto it = cleanup_.rbegin(); it != cleanup_.rend(); ++it)
      RunProgram(*it).status().IgnoreError();
  }

  std::string Folder(const std::string& name) {
    fs::create_directories(dir_ / name);
    return dir_ / name;
  }
  // Empty when it worked, else why it didn't.
  std::string Try(const std::vector<std::string>& argv, std::string* out = nullptr) {
    const auto result = RunProgram(argv);
    if (!result.ok()) return result.status().message();
    if (out != nullptr) *out = Trimmed(result->out);
    return result->exit_code == 0 ? "" : argv[0] + ": " + result->err;
  }
  void MountOn(const std::string& point, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "mount");
    arguments.push_back(point);
    problem_ = Try(arguments);
    if (problem_.empty()) cleanup_.push_back({"umount", "-l", point});
  }
  // A loop device over a new file in `folder`; empty, with problem_ set, when there is none.
  std::string LoopOver(const std::string& folder, bool direct, const std::string& size = "96M") {
    const std::string file = folder + "/image";
    std::string device;
    problem_ = Try({"fallocate", "-l", size, file});
    if (problem_.empty()) {
      problem_ =
          Try({"losetup", direct ? "--direct-io=on" : "--direct-io=off", "-f", "--show", file},
              &device);
    }
    if (problem_.empty()) cleanup_.push_back({"losetup", "-d", device});
    return device;
  }
  std::string MountedExt4(const std::string& device) {
    const std::string point = Folder("mounted");
    problem_ = Try({"mkfs.ext4", "-q", "-F", device});
    if (problem_.empty()) MountOn(point, {device});
    return point;
  }

  // Writes and reads a file in `folder` by direct I/O.
  ByteEvidence Moved(const std::string& folder, const DeviceCounters& counters) {
    auto io = OpenIo(IoEngine::kAuto).value();
    auto memory = AlignedBuffer::Allocate(kMovedBlock * kMovedBlocks).value();
    RawTransfer transfer{.write = true,
                         .file = folder + "/moved",
                         .direct = true,
                         .block_bytes = kMovedBlock,
                         .blocks = kMovedBlocks,
                         .iodepth = 4};
    const MovedBytes moved(counters);
    EXPECT_OK(RunRawTransfer(*io, transfer, memory.bytes()).status());
    transfer.write = false;
    EXPECT_OK(RunRawTransfer(*io, transfer, memory.bytes()).status());
    return moved.Evidence({kMovedBlock * kMovedBlocks, kMovedBlock * kMovedBlocks});
  }

  TempDir dir_;
  DeviceCounters below_;  // of the filesystem that the test's folder is on
  std::string problem_;
  std::vector<std::vector<std::string>> cleanup_;
};

#define NEEDS(step) \
  step;             \
  if (!problem_.empty()) GTEST_SKIP() << problem_

TEST_F(MountedProof, OfADirectLoopDeviceIsThatOfTheDiskUnderIt) {
  NEEDS(const std::string device = LoopOver(Folder("below"), true));
  NEEDS(const std::string point = MountedExt4(device));
  const DeviceCounters counters = DeviceCounters::For(point, {});
  EXPECT_EQ(counters.source(), below_.source()) << counters.reason();
  EXPECT_EQ(counters.devices(), below_.devices());
  if (counters.source() != CounterSource::kSectors) GTEST_SKIP() << counters.reason();
  const ByteVerdict verdict = JudgeBytes(Moved(point, counters));
  EXPECT_TRUE(verdict.failures.empty()) << verdict.failures[0];
  ASSERT_TRUE(verdict.read_ratio && verdict.write_ratio);
  EXPECT_GE(*verdict.read_ratio, 0.98);
  EXPECT_GE(*verdict.write_ratio, 0.98);
}

// Direct I/O, exact in /proc/self/io, answered by the page cache of the file under the device.
TEST_F(MountedProof, CatchesTheCacheUnderABufferedLoopDevice) {
  NEEDS(const std::string device = LoopOver(Folder("below"), false));
  NEEDS(const std::string point = MountedExt4(device));
  const DeviceCounters counters = DeviceCounters::For(point, {});
  if (counters.source() != CounterSource::kSectors) GTEST_SKIP() << counters.reason();
  // A neighbour that reads as much in the same moment hides it.
  ByteVerdict verdict;
  for (int i = 0; i < 10 && verdict.failures.empty(); ++i) {
    verdict = JudgeBytes(Moved(point, counters));
  }
  ASSERT_EQ(verdict.failures.size(), 1u);
  EXPECT_NE(verdict.failures[0].find("a cache answered"), std::string::npos);
}

TEST_F(MountedProof, NamesTheMemoryUnderALoopDevice) {
  const std::string memory = Folder("memory");
  NEEDS(MountOn(memory, {"-t", "tmpfs", "tmpfs"}));
  EXPECT_EQ(DeviceCounters::For(memory, {}).memory(), "tmpfs");
  NEEDS(const std::string device = LoopOver(memory, false));
  NEEDS(const std::string point = MountedExt4(device));
  const DeviceCounters counters = DeviceCounters::For(point, {});
  EXPECT_EQ(counters.source(), CounterSource::kUnavailable);
  EXPECT_NE(counters.reason().find("memory and not a disk"), std::string::npos)
      << counters.reason();
}

TEST_F(MountedProof, FollowsBindMountsAndOverlays) {
  if (below_.source() != CounterSource::kSectors) GTEST_SKIP() << below_.reason();
  const std::string bound = Folder("bound"), merged = Folder("merged");
  NEEDS(MountOn(bound, {"--bind", Folder("deep/folder")}));
  EXPECT_EQ(DeviceCounters::For(bound, {}).devices(), below_.devices());
  NEEDS(MountOn(merged, {"-t", "overlay", "overlay", "-o",
                         "lowerdir=" + Folder("lower") + ",upperdir=" + Folder("upper") +
                             ",workdir=" + Folder("work")}));
  const DeviceCounters counters = DeviceCounters::For(merged, {});
  EXPECT_EQ(counters.devices(), below_.devices()) << counters.reason();
}

TEST_F(MountedProof, FollowsABtrfsToItsDisk) {
  if (below_.source() != CounterSource::kSectors) GTEST_SKIP() << below_.reason();
  NEEDS(const std::string device = LoopOver(Folder("below"), true, "512M"));
  NEEDS(problem_ = Try({"mkfs.btrfs", "-q", "-f", "-d", "dup", "-m", "dup", device}));
  const std::string point = Folder("mounted");
  NEEDS(MountOn(point, {device}));
  const DeviceCounters counters = DeviceCounters::For(point, {});
  EXPECT_EQ(counters.devices(), below_.devices()) << counters.reason();
  EXPECT_EQ(counters.redundancy(), "btrfs dup");
}

TEST_F(MountedProof, FollowsADeviceMapperStackToItsDisk) {
  if (below_.source() != CounterSource::kSectors) GTEST_SKIP() << below_.reason();
  NEEDS(problem_ = Try({"dmsetup", "version"}));
  NEEDS(const std::string device = LoopOver(Folder("below"), true));
  const std::string name = "kvbed-test-" + fs::path(dir_.path()).filename().string();
  NEEDS(problem_ =
            Try({"dmsetup", "create", name, "--table", "0 131072 linear " + device + " 2048"}));
  cleanup_.push_back({"dmsetup", "remove", name});
  NEEDS(const std::string point = MountedExt4("/dev/mapper/" + name));
  const DeviceCounters counters = DeviceCounters::For(point, {});
  EXPECT_EQ(counters.devices(), below_.devices()) << counters.reason();
}

TEST_F(MountedProof, OfNfsIsItsServersBytes) {
  const std::string exported = Folder("exported"), point = Folder("mounted");
  const std::string client = "127.0.0.1:" + exported;
  NEEDS(problem_ = Try({"exportfs", "-i", "-o", "rw,no_root_squash,insecure,fsid=77", client}));
  cleanup_.push_back({"exportfs", "-u", client});
  NEEDS(MountOn(point, {"-t", "nfs", "-o", "vers=4.2,soft,timeo=50", client}));
  const DeviceCounters counters = DeviceCounters::For(point, {});
  ASSERT_EQ(counters.source(), CounterSource::kMountStats) << counters.reason();
  ASSERT_OK_AND_ASSIGN(const ByteCounts direct_before, counters.ReadDirect());
  const ByteVerdict verdict = JudgeBytes(Moved(point, counters));
  EXPECT_TRUE(verdict.failures.empty()) << verdict.failures[0];
  EXPECT_GE(verdict.read_ratio.value_or(0), 0.98);
  EXPECT_GE(verdict.write_ratio.value_or(0), 0.98);
  ASSERT_OK_AND_ASSIGN(const ByteCounts direct, counters.ReadDirect());
  EXPECT_EQ(direct.read_bytes - direct_before.read_bytes, kMovedBlock * kMovedBlocks);
}

}  // namespace
}  // namespace kvbed
