// Which disks are behind a device, in a sysfs made up for the test.
#include "tools/block_device.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/fake_system.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

class BlockDevice : public ::testing::Test, protected FakeSystem {
 protected:
  static Strings Names(const WholeDisks& disks) {
    Strings names;
    for (const std::string& folder : disks.folders) names.push_back(fs::path(folder).filename());
    return names;
  }
  WholeDisks DisksOf(const std::string& path) const {
    auto disks = FindWholeDisks(path, roots());
    EXPECT_OK(disks.status());
    return disks.ok() ? *disks : WholeDisks{};
  }
};

TEST_F(BlockDevice, APartitionLiesOnItsDisk) {
  Write(Disk("sda/sda1/partition"), "1\n");
  ASSERT_OK_AND_ASSIGN(const WholeDisks disks, WholeDisksOf(Disk("sda/sda1"), roots()));
  EXPECT_EQ(Names(disks), std::vector<std::string>{"sda"});
  EXPECT_EQ(disks.redundancy, "");
}

TEST_F(BlockDevice, AVolumeOverTwoPartitionsOfOneDiskCountsThatDiskOnce) {
  Write(Disk("sda/sda1/partition"), "1\n");
  Write(Disk("sda/sda2/partition"), "2\n");
  Link(Virtual("dm-0/slaves/sda1"), Disk("sda/sda1"));
  Link(Virtual("dm-0/slaves/sda2"), Disk("sda/sda2"));
  Link(Virtual("dm-1/slaves/dm-0"), Virtual("dm-0"));
  ASSERT_OK_AND_ASSIGN(const WholeDisks disks, WholeDisksOf(Virtual("dm-1"), roots()));
  EXPECT_EQ(Names(disks), std::vector<std::string>{"sda"});
}

TEST_F(BlockDevice, AMirrorIsRedundantAndAStripeIsNot) {
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

TEST_F(BlockDevice, WhatIsNotThereIsNotFound) {
  EXPECT_TRUE(FailsWith(WholeDisksOf(Disk("sdz"), roots()).status(), StatusCode::kNotFound));
}

TEST_F(BlockDevice, ADiskSaysWhatItIsAndWhyItDoesNot) {
  Write(dir() / "sys/devices/pci/current_link_speed", "16.0 GT/s PCIe\n");
  Write(dir() / "sys/devices/pci/current_link_width", "4\n");
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

TEST_F(BlockDevice, APathIsFollowedByTheNumberOfItsDevice) {
  Write(Disk("sda/sda1/partition"), "1\n");
  PutOn(Disk("sda/sda1"));
  EXPECT_EQ(Names(DisksOf(dir() / "not/yet/there")), Strings{"sda"});
}

TEST_F(BlockDevice, AnEncryptedVolumeLiesOnTheDiskUnderBoth) {
  Write(Disk("nvme0n1/nvme0n1p3/partition"), "3\n");
  Link(Virtual("dm-0/slaves/nvme0n1p3"), Disk("nvme0n1/nvme0n1p3"));
  Write(Virtual("dm-0/dm/uuid"), "CRYPT-LUKS2-0123-luks\n");
  Link(Virtual("dm-1/slaves/dm-0"), Virtual("dm-0"));
  Write(Virtual("dm-1/dm/name"), "vg-kv\n");
  PutOn(Virtual("dm-1"));
  const WholeDisks disks = DisksOf(dir().path());
  EXPECT_EQ(Names(disks), Strings{"nvme0n1"});
  EXPECT_EQ(disks.redundancy, "");
}

TEST_F(BlockDevice, AMirrorOfLvmIsRedundantAndItsStripesAreNot) {
  for (const char* leg : {"vg-kv_rimage_0", "vg-kv_mimage_1", "vg-kv"}) {
    const std::string name = leg;
    Link(Virtual(name + "/slaves/sda"), Disk("sda"));
    Write(Virtual(name + "/dm/name"), name + "\n");
    ASSERT_OK_AND_ASSIGN(const WholeDisks disks, WholeDisksOf(Virtual(name), roots()));
    EXPECT_EQ(disks.redundancy, name == "vg-kv" ? "" : "LVM RAID");
  }
}

TEST_F(BlockDevice, AFileOnALoopDeviceLiesOnTheDiskOfThatFile) {
  PutOn(Disk("sda"));
  Write(dir() / "image", "");
  Write(Virtual("loop0/loop/backing_file"), dir() / "image\n");
  ASSERT_OK_AND_ASSIGN(const WholeDisks disks, WholeDisksOf(Virtual("loop0"), roots()));
  EXPECT_EQ(Names(disks), Strings{"sda"});

  Write(Virtual("loop1/loop/backing_file"), "/elsewhere/image (deleted)\n");
  EXPECT_TRUE(FailsWith(WholeDisksOf(Virtual("loop1"), roots()).status(), StatusCode::kNotFound,
                        "loop1 is a loop device"));
}

TEST_F(BlockDevice, LoopDevicesInARingEnd) {
  PutOn(Virtual("loop0"));
  Write(dir() / "image", "");
  Write(Virtual("loop0/loop/backing_file"), dir() / "image\n");
  EXPECT_TRUE(FailsWith(FindWholeDisks(dir().path(), roots()).status(), StatusCode::kNotFound));
}

// Device numbers of btrfs are its own; a container has sysfs and no nodes in /dev.
TEST_F(BlockDevice, BtrfsIsFollowedByItsMountAndAllItsMembersCount) {
  AddDisk("sda");
  AddDisk("sdb");
  AddDisk("sdc");
  Mount("rw - btrfs /dev/sda rw,subvol=/kv");
  EXPECT_EQ(Names(DisksOf(dir().path())), Strings{"sda"}) << "sysfs doesn't list its members";

  const std::string btrfs = roots().sys + "/fs/btrfs/0123-4567";
  Link(btrfs + "/devices/sda", Disk("sda"));
  Link(btrfs + "/devices/sdb", Disk("sdb"));
  fs::create_directories(btrfs + "/allocation/data/single");
  EXPECT_EQ(Names(DisksOf(dir().path())), (Strings{"sda", "sdb"}));
  EXPECT_EQ(DisksOf(dir().path()).redundancy, "");
  fs::create_directories(btrfs + "/allocation/data/raid1");
  EXPECT_EQ(DisksOf(dir().path()).redundancy, "btrfs raid1");
}

TEST_F(BlockDevice, AMapperNameIsFoundThroughItsLinkOrThroughSysfs) {
  AddDisk("sda");
  Link(Virtual("dm-0/slaves/sda"), Disk("sda"));
  AddBlock("dm-0", Virtual("dm-0"));
  Mount("rw - btrfs /dev/mapper/luks rw");
  EXPECT_TRUE(FailsWith(FindWholeDisks(dir().path(), roots()).status(), StatusCode::kNotFound,
                        "/dev/mapper/luks"));
  Write(Virtual("dm-0/dm/name"), "luks\n");
  EXPECT_EQ(Names(DisksOf(dir().path())), Strings{"sda"});

  fs::remove(Virtual("dm-0/dm/name"));
  Write(roots().dev + "/dm-0", "");
  fs::create_directories(roots().dev + "/mapper");
  fs::create_symlink("../dm-0", roots().dev + "/mapper/luks");
  EXPECT_EQ(Names(DisksOf(dir().path())), Strings{"sda"});
}

TEST_F(BlockDevice, BcachefsNamesItsMembersInOneSource) {
  AddDisk("sda");
  AddDisk("sdb");
  Mount("rw - bcachefs /dev/sda:/dev/sdb rw");
  EXPECT_EQ(Names(DisksOf(dir().path())), (Strings{"sda", "sdb"}));
}

TEST_F(BlockDevice, AnOverlayLiesOnTheDiskOfItsUpperFolder) {
  const std::string merged = dir() / "merged", upper = dir() / "upper";
  fs::create_directories(merged);
  AddDisk("sda");
  Mount("rw - btrfs /dev/sda rw");
  MountAt(merged, "rw - overlay overlay rw,lowerdir=/l,upperdir=" + upper + ",workdir=/w");
  EXPECT_TRUE(FailsWith(FindWholeDisks(merged, roots()).status(), StatusCode::kNotFound,
                        "upper folder can't be seen"));
  fs::create_directories(upper);
  EXPECT_EQ(Names(DisksOf(merged)), Strings{"sda"});
}

TEST_F(BlockDevice, ABindMountLiesWhereItsFolderDoes) {
  AddDisk("sda");
  const std::string file = roots().proc + "/self/mountinfo";
  Write(file, "30 27 0:44 /deep/folder " + dir().path() + " rw - btrfs /dev/sda rw\n");
  EXPECT_EQ(Names(DisksOf(dir().path())), Strings{"sda"});
}

TEST_F(BlockDevice, WhatKeepsItsDataInMemoryIsNamed) {
  for (const char* name : {"zram0", "ram12", "nullb0"}) {
    fs::create_directories(Virtual(name));
    ASSERT_OK_AND_ASSIGN(const WholeDisks disks, WholeDisksOf(Virtual(name), roots()));
    EXPECT_EQ(disks.memory, name);
  }
  for (const char* name : {"sda", "ramdisk", "zram", "nvme0n1"}) {
    fs::create_directories(Disk(name));
    ASSERT_OK_AND_ASSIGN(const WholeDisks disks, WholeDisksOf(Disk(name), roots()));
    EXPECT_EQ(disks.memory, "") << name;
  }
  Mount("rw - tmpfs tmpfs rw");
  EXPECT_TRUE(FailsWith(FindWholeDisks(dir().path(), roots()).status(), StatusCode::kNotFound,
                        "tmpfs, which is memory and not a disk"));
}

}  // namespace
}  // namespace kvbed
