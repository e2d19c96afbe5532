// Which counters prove a path's I/O, on systems made up for the test.
#include "tools/device_counters.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/fake_system.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

class Counters : public ::testing::Test, protected FakeSystem {
 protected:
  void SetUp() override { SetKernel("6.1.0-18-amd64"); }
  void SetKernel(const std::string& release) const {
    Write(roots().proc + "/sys/kernel/osrelease", release + "\n");
  }
  DeviceCounters For(const std::string& path) const { return DeviceCounters::For(path, roots()); }
  DeviceCounters Here() const { return For(dir() / "kv"); }
  static ByteCounts Read(const DeviceCounters& counters) {
    const auto counts = counters.Read();
    EXPECT_OK(counts.status());
    return counts.ok() ? *counts : ByteCounts{};
  }
  void AddMountStats(const std::string& point) const {
    Write(roots().proc + "/self/mountstats", "device server:/export mounted on " + point +
                                                 " with fstype nfs4 statvers=1.1\n"
                                                 "\tbytes:\t1 2 30 40 500 600 7 8\n");
  }
  void AddLustre(const std::string& where, const std::string& lines) const {
    Write(where + "/stats", "snapshot_time 1.1 secs.nsecs\n" + lines);
  }
};

TEST_F(Counters, OfSeveralMembersAreTheirSumAndTheirRedundancyIsNamed) {
  AddDisk("sda", 10, 20);
  AddDisk("sdb", 1, 20);
  Link(Virtual("md0/slaves/sda"), Disk("sda"));
  Link(Virtual("md0/slaves/sdb"), Disk("sdb"));
  Write(Virtual("md0/md/level"), "raid1\n");
  PutOn(Virtual("md0"));
  const DeviceCounters counters = Here();
  EXPECT_EQ(counters.source(), CounterSource::kSectors);
  EXPECT_EQ(counters.devices(), (std::vector<std::string>{"sda", "sdb"}));
  EXPECT_EQ(counters.redundancy(), "md raid1");
  EXPECT_EQ(Read(counters), (ByteCounts{11 * 512, 40 * 512}));
  EXPECT_TRUE(counters.process_counts());
  EXPECT_TRUE(FailsWith(counters.ReadDirect().status(), StatusCode::kNotFound, "NFS"));
}

TEST_F(Counters, ADiskWithoutThemIsUnavailable) {
  PutOn(Disk("sda"));
  const DeviceCounters counters = Here();
  EXPECT_EQ(counters.source(), CounterSource::kUnavailable);
  EXPECT_NE(counters.reason().find("sda/stat"), std::string::npos) << counters.reason();
}

TEST_F(Counters, OfAnNfsMountAreItsServersAndWhatWentPastTheCache) {
  Mount("rw - nfs4 server:/export rw,vers=4.2");
  AddMountStats(dir().path());
  const DeviceCounters counters = Here();
  EXPECT_EQ(counters.source(), CounterSource::kMountStats);
  EXPECT_EQ(counters.devices(), std::vector<std::string>{"server:/export"});
  EXPECT_EQ(Read(counters), (ByteCounts{500, 600}));
  ASSERT_OK_AND_ASSIGN(const ByteCounts direct, counters.ReadDirect());
  EXPECT_EQ(direct, (ByteCounts{30, 40}));
}

TEST_F(Counters, OfAnNfsMountThatMountstatsLacksAreUnavailable) {
  Mount("rw - nfs4 server:/export rw,vers=4.2");
  AddMountStats("/another/place");
  EXPECT_EQ(Here().source(), CounterSource::kUnavailable);
  EXPECT_NE(Here().reason().find("mountstats"), std::string::npos) << Here().reason();
}

TEST_F(Counters, OfAnOverlayAreThoseOfItsUpperFolder) {
  const std::string merged = dir() / "merged", upper = dir() / "upper";
  std::filesystem::create_directories(merged);
  std::filesystem::create_directories(upper);
  Mount("rw - nfs4 server:/export rw,vers=4.2");
  MountAt(merged, "rw - overlay overlay rw,lowerdir=/l,upperdir=" + upper + ",workdir=/w");
  AddMountStats(dir().path());
  EXPECT_EQ(For(merged).source(), CounterSource::kMountStats);
}

TEST_F(Counters, OfAnOverlayOverItselfAreUnavailable) {
  Mount("rw - overlay overlay rw,lowerdir=/l,upperdir=" + dir().path() + ",workdir=/w");
  EXPECT_EQ(Here().source(), CounterSource::kUnavailable);
  EXPECT_NE(Here().reason(), "");
}

TEST_F(Counters, OfLustreAreTheObjectStorageClientsOfItsOwnTargets) {
  Mount("rw - lustre mgs@tcp:/scratch rw");
  for (const std::string& base :
       {roots().proc + "/fs/lustre/", roots().sys + "/kernel/debug/lustre/"}) {
    AddLustre(base + "osc/scratch-OST0000-osc-ffff",
              "read_bytes 1 samples [bytes] 1 1 1000\nwrite_bytes 1 samples [bytes] 1 1 5\n");
    AddLustre(base + "osc/scratch-OST0001-osc-ffff", "read_bytes 1 samples [bytes] 1 1 200\n");
    AddLustre(base + "osc/home-OST0000-osc-ffff", "read_bytes 1 samples [bytes] 1 1 7\n");
    AddLustre(base + "llite/scratch-ffff", "read_bytes 1 samples [bytes] 1 1 9\n");
    EXPECT_EQ(Here().source(), CounterSource::kLustre);
    EXPECT_EQ(Read(Here()), (ByteCounts{1200, 5}));
    EXPECT_EQ(Here().weakness(), "");
  }
}

TEST_F(Counters, OfLustresLliteProveOnlyWhenTheyAreOfTheServers) {
  Mount("rw - lustre mgs@tcp:/scratch rw");
  EXPECT_EQ(Here().source(), CounterSource::kUnavailable);
  EXPECT_NE(Here().reason().find("Lustre"), std::string::npos) << Here().reason();

  const std::string llite = roots().proc + "/fs/lustre/llite/scratch-ffff";
  const std::string asked = "read_bytes 1 samples [bytes] 1 1 9\n";
  AddLustre(llite, asked);
  EXPECT_EQ(Here().source(), CounterSource::kLustre);
  EXPECT_EQ(Read(Here()), (ByteCounts{9, 0}));
  EXPECT_NE(Here().weakness(), "") << "its cache may have answered";

  AddLustre(llite, asked + "osc_read 1 samples [bytes] 1 1 8\n");
  EXPECT_EQ(Read(Here()), (ByteCounts{8, 0}));
  EXPECT_EQ(Here().weakness(), "");
}

TEST_F(Counters, OfMemoryAreNone) {
  Mount("rw - tmpfs tmpfs rw");
  EXPECT_EQ(Here().source(), CounterSource::kUnavailable);
  EXPECT_EQ(Here().memory(), "tmpfs");
  EXPECT_NE(Here().reason().find("memory and not a disk"), std::string::npos) << Here().reason();
  EXPECT_TRUE(FailsWith(Here().Read().status(), StatusCode::kNotFound, "tmpfs"));
}

TEST_F(Counters, OfABlockDeviceInMemoryAreThereAndItIsNamed) {
  Write(Virtual("zram0/stat"), "1 0 10 0 1 0 20 0 0 0 0\n");
  PutOn(Virtual("zram0"));
  EXPECT_EQ(Here().source(), CounterSource::kSectors);
  EXPECT_EQ(Here().memory(), "zram0");
}

TEST_F(Counters, OfAFuseFilesystemOnADiskAreNotThisProcesss) {
  AddDisk("sda");
  PutOn(Disk("sda"));
  Mount("rw - fuseblk /dev/sda rw");
  EXPECT_EQ(Here().source(), CounterSource::kSectors);
  EXPECT_FALSE(Here().process_counts());
}

TEST_F(Counters, OfTheProcessLackItsWorkersOnAnOldKernel) {
  AddDisk("sda");
  PutOn(Disk("sda"));
  EXPECT_TRUE(Here().process_counts());
  SetKernel("5.10.0-28-amd64");
  EXPECT_FALSE(Here().process_counts());
}

TEST_F(Counters, OfAFilesystemOfAnotherKindAreUnavailableWithAReason) {
  for (const char* line : {"rw - 9p share rw", "rw - virtiofs kv rw", "rw - zfs pool/kv rw",
                           "rw - ceph 10.0.0.1:6789:/ rw", "rw - fuse.sshfs host:/kv rw"}) {
    std::filesystem::remove(roots().proc + "/self/mountinfo");
    Mount(line);
    EXPECT_EQ(Here().source(), CounterSource::kUnavailable) << line;
    EXPECT_NE(Here().reason().find("no block device"), std::string::npos) << Here().reason();
    EXPECT_EQ(Here().memory(), "");
  }
}

}  // namespace
}  // namespace kvbed
