// Which disks are behind a device, in a sysfs made up for the test.
#include "tools/block_device.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/device_counters.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

class FakeSystem : public ::testing::Test {
 protected:
  SystemRoots roots() const { return {.proc = dir_ / "proc", .sys = dir_ / "sys"}; }
  std::string Disk(const std::string& name) const {
    return dir_ / ("sys/devices/pci/block/" + name);
  }
  std::string Virtual(const std::string& name) const {
    return dir_ / ("sys/devices/virtual/block/" + name);
  }

  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  // The kernel's names for it are links.
  void Link(const std::string& at, const std::string& target) const {
    fs::create_directories(fs::path(at).parent_path());
    fs::create_directories(target);
    fs::create_directory_symlink(target, at);
  }

  static std::vector<std::string> Names(const WholeDisks& disks) {
    std::vector<std::string> names;
    for (const std::string& folder : disks.folders) names.push_back(fs::path(folder).filename());
    return names;
  }

  TempDir dir_;
};

TEST_F(FakeSystem, APartitionLiesOnItsDisk) {
  Write(Disk("sda/sda1/partition"), "1\n");
  ASSERT_OK_AND_ASSIGN(const WholeDisks disks, WholeDisksOf(Disk("sda/sda1"), roots()));
  EXPECT_EQ(Names(disks), std::vector<std::string>{"sda"});
  EXPECT_EQ(disks.redundancy, "");
}

TEST_F(FakeSystem, AVolumeOverTwoPartitionsOfOneDiskCountsThatDiskOnce) {
  Write(Disk("sda/sda1/partition"), "1\n");
  Write(Disk("sda/sda2/partition"), "2\n");
  Link(Virtual("dm-0/slaves/sda1"), Disk("sda/sda1"));
  Link(Virtual("dm-0/slaves/sda2"), Disk("sda/sda2"));
  Link(Virtual("dm-1/slaves/dm-0"), Virtual("dm-0"));
  ASSERT_OK_AND_ASSIGN(const WholeDisks disks, WholeDisksOf(Virtual("dm-1"), roots()));
  EXPECT_EQ(Names(disks), std::vector<std::string>{"sda"});
}

TEST_F(FakeSystem, AMirrorIsRedundantAndAStripeIsNot) {
  for (const char* level : {"raid1", "raid0"}) {
    const std::string md = Virtual(std::string("md-") + level);
    Link(md + "/slaves/nvme0n1", Disk("nvme0n1"));
    Link(md + "/slaves/nvme1n1", Disk("nvme1n1"));
    Write(md + "/md/level", std::string(level) + "\n");
    ASSERT_OK_AND_ASSIGN(const WholeDisks disks, WholeDisksOf(md, roots()));
    EXPECT_EQ(Names(disks), (std::vector<std::string>{"nvme0n1", "nvme1n1"}));
    EXPECT_EQ(disks.redundancy, std::string(level) == "raid1" ? "md raid1" : "");
  }
}

TEST_F(FakeSystem, WhatIsNotThereIsNotFound) {
  EXPECT_TRUE(FailsWith(WholeDisksOf(Disk("sdz"), roots()).status(), StatusCode::kNotFound));
}

TEST_F(FakeSystem, ADiskSaysWhatItIsAndWhyItDoesNot) {
  Write(dir_ / "sys/devices/pci/current_link_speed", "16.0 GT/s PCIe\n");
  Write(dir_ / "sys/devices/pci/current_link_width", "4\n");
  Write(Disk("nvme0n1/device/model"), "Samsung SSD 990 PRO 2TB      \n");
  Write(Disk("nvme0n1/device/hwmon1/temp1_input"), "41850\n");
  Write(Disk("nvme0n1/queue/scheduler"), "[none] mq-deadline\n");
  Write(Disk("nvme0n1/size"), "1000\n");
  const DiskDescription disk = DescribeDisk(Disk("nvme0n1"));
  EXPECT_EQ(disk.name, "nvme0n1");
  EXPECT_EQ(disk.model.value, "Samsung SSD 990 PRO 2TB");
  EXPECT_EQ(disk.link.value, "16.0 GT/s PCIe x4");
  EXPECT_EQ(disk.temperature_c.value, "41.9");
  EXPECT_EQ(disk.scheduler.value, "none");
  EXPECT_EQ(disk.size_bytes.value, "512000");
  EXPECT_EQ(disk.firmware.value, std::nullopt);
  EXPECT_NE(disk.firmware.reason, "");
  EXPECT_NE(disk.write_cache.reason, "");
}

TEST_F(FakeSystem, AnNfsMountIsCountedByItsServerBytes) {
  Write(roots().proc + "/self/mountinfo",
        "30 27 0:44 / " + dir_.path() + " rw - nfs4 server:/export rw,vers=4.2\n");
  Write(roots().proc + "/self/mountstats", "device server:/export mounted on " + dir_.path() +
                                               " with fstype nfs4 statvers=1.1\n"
                                               "\tbytes:\t1 2 3 4 500 600 7 8\n");
  const DeviceCounters counters = DeviceCounters::For(dir_ / "kv", roots());
  EXPECT_EQ(counters.source(), CounterSource::kMountStats);
  EXPECT_EQ(counters.devices(), std::vector<std::string>{"server:/export"});
  ASSERT_OK_AND_ASSIGN(const ByteCounts counts, counters.Read());
  EXPECT_EQ(counts, (ByteCounts{500, 600}));
}

TEST_F(FakeSystem, LustreIsCountedByTheClientsOfItsOwnTargets) {
  Write(roots().proc + "/self/mountinfo",
        "30 27 0:44 / " + dir_.path() + " rw - lustre mgs@tcp:/scratch rw\n");
  const auto stats = [&](const std::string& client, int bytes) {
    Write(roots().sys + "/kernel/debug/lustre/osc/" + client + "/stats",
          "snapshot_time 1.1 secs.nsecs\nread_bytes 1 samples [bytes] 1 1 " +
              std::to_string(bytes) + "\n");
  };
  stats("scratch-OST0000-osc-ffff", 1000);
  stats("scratch-OST0001-osc-ffff", 200);
  stats("home-OST0000-osc-ffff", 7);
  const DeviceCounters counters = DeviceCounters::For(dir_ / "kv", roots());
  EXPECT_EQ(counters.source(), CounterSource::kLustre);
  ASSERT_OK_AND_ASSIGN(const ByteCounts counts, counters.Read());
  EXPECT_EQ(counts, (ByteCounts{1200, 0}));
}

TEST_F(FakeSystem, NothingThatResolvesIsUnavailableWithAReason) {
  Write(roots().proc + "/self/mountinfo", "30 27 0:44 / " + dir_.path() + " rw - tmpfs tmpfs rw\n");
  const DeviceCounters counters = DeviceCounters::For(dir_.path(), roots());
  EXPECT_EQ(counters.source(), CounterSource::kUnavailable);
  EXPECT_NE(counters.reason().find("tmpfs"), std::string::npos) << counters.reason();
  EXPECT_TRUE(FailsWith(counters.Read().status(), StatusCode::kNotFound, "tmpfs"));
}

}  // namespace
}  // namespace kvbed
