// Texts of /proc and /sys, from several machines.
#include "tools/system_text.h"

#include <gtest/gtest.h>

namespace kvbed {
namespace {

TEST(CpuInfo, CountsCoresAndSocketsApartFromThreads) {
  const char* text =
      "processor\t: 0\nmodel name\t: Xeon 6980P\nphysical id\t: 0\ncore id\t\t: 0\n"
      "flags\t\t: fpu sse4_2 avx avx2 avx512f amx_tile\n\n"
      "processor\t: 1\nmodel name\t: Xeon 6980P\nphysical id\t: 0\ncore id\t\t: 0\n\n"
      "processor\t: 2\nmodel name\t: Xeon 6980P\nphysical id\t: 1\ncore id\t\t: 0\n";
  const CpuInfo info = ParseCpuInfo(text);
  EXPECT_EQ(info.model, "Xeon 6980P");
  EXPECT_EQ(info.logical, 3u);
  EXPECT_EQ(info.cores, 2u);
  EXPECT_EQ(info.sockets, 2u);
  EXPECT_FALSE(info.hypervisor);
  EXPECT_EQ(info.features,
            (std::vector<std::string>{"sse4_2", "avx", "avx2", "avx512f", "amx_tile"}));
}

TEST(CpuInfo, SaysWhenAHypervisorRunsIt) {
  EXPECT_TRUE(ParseCpuInfo("processor : 0\nflags : sse4_2 hypervisor\n").hypervisor);
}

TEST(CpuInfo, LeavesCountsAtZeroWhereTheTextHasNone) {
  const CpuInfo arm = ParseCpuInfo("processor\t: 0\nFeatures\t: fp asimd sve\n");
  EXPECT_EQ(arm.logical, 1u);
  EXPECT_EQ(arm.cores, 0u);
  EXPECT_EQ(arm.sockets, 0u);
  EXPECT_EQ(arm.features, (std::vector<std::string>{"asimd", "sve"}));
}

TEST(MemInfo, IsInBytes) {
  const char* text = "MemTotal:       24683656 kB\nHugePages_Free:       12\n";
  EXPECT_EQ(MemInfoBytes(text, "MemTotal"), uint64_t{24683656} * 1024);
  EXPECT_EQ(MemInfoBytes(text, "HugePages_Free"), 12u);
  EXPECT_EQ(MemInfoBytes(text, "MemAvailable"), std::nullopt);
}

constexpr const char* kMountInfo =
    "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n"
    "30 27 0:44 / /mnt/my\\040disk rw,noatime - nfs4 server:/export rw,vers=4.2,nconnect=8\n"
    "31 27 0:50 / /data rw - xfs /dev/sdb1 rw\n"
    "32 27 0:51 / /data rw - xfs /dev/sdc1 rw\n"
    "not a mount\n";

TEST(MountInfo, FindsTheMountOfAPath) {
  const auto mounts = ParseMountInfo(kMountInfo);
  ASSERT_EQ(mounts.size(), 4u);
  const Mount* nfs = MountOf(mounts, "/mnt/my disk/kv");
  ASSERT_NE(nfs, nullptr);
  EXPECT_EQ(nfs->fs_type, "nfs4");
  EXPECT_EQ(nfs->source, "server:/export");
  EXPECT_EQ(nfs->options, "rw,noatime,rw,vers=4.2,nconnect=8");
  EXPECT_EQ(MountOption(nfs->options, "vers"), "4.2");
  EXPECT_EQ(MountOption(nfs->options, "ver"), std::nullopt);
  const Mount* root = MountOf(mounts, "/mnt/my diskette");
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root->device_major, 254u);
}

TEST(MountInfo, TakesTheMountOnTop) {
  const auto mounts = ParseMountInfo(kMountInfo);
  EXPECT_EQ(MountOf(mounts, "/data/kv")->source, "/dev/sdc1");
  EXPECT_EQ(MountOf({}, "/data"), nullptr);
}

TEST(ProcessIo, TakesStorageBytesAndNotThoseOfTheCache) {
  const char* text =
      "rchar: 6976\nwchar: 9\nsyscr: 10\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\n"
      "cancelled_write_bytes: 0\n";
  EXPECT_EQ(ParseProcessIo(text), (ByteCounts{4096, 8192}));
  EXPECT_EQ(ParseProcessIo("rchar: 6976\n"), std::nullopt);
}

TEST(DiskStat, CountsSectorsOf512Bytes) {
  EXPECT_EQ(ParseDiskStat("  211205 39847 100 206759 352231 188520 200 542411 0 123536 808625\n"),
            (ByteCounts{100 * 512, 200 * 512}));
  EXPECT_EQ(ParseDiskStat("1 2 3 4"), std::nullopt);
  EXPECT_EQ(ParseDiskStat("a b c d e f g h i j k"), std::nullopt);
}

// As the NFS client writes it with nfs3 (statvers 1.0, of old kernels) and nfs4 (1.1), shortened.
constexpr const char* kMountStats =
    "device proc mounted on /proc with fstype proc\n"
    "no device mounted on /mnt/none with fstype nfs\n"
    "device server:/a mounted on /mnt/a with fstype nfs4 statvers=1.1\n"
    "\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,nconnect=8\n"
    "\tage:\t3542\n"
    "\tcaps:\tcaps=0x3ffdf,wtmult=512,dtsize=32768,bsize=0,namlen=255\n"
    "\tnfsv4:\tbm0=0xfdffbfff,bm1=0x40f9be3e,bm2=0x803,acl=0x3,sessions,pnfs=not configured\n"
    "\tevents:\t39 11 0 1 0 2 25 5 0 0 0 34 0 2 5 3 0 5 0 2 1 0 0 0 0 4 1\n"
    "\tbytes:\t1 2 300 400 500 600 7 8\n"
    "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
    "\txprt:\ttcp 0 0 6 0 29 169588 169584 0 4885578 0 31 7116 4400333\n"
    "\tper-op statistics\n"
    "\t        READ: 30802 30802 0 5 6 0 1 2 0\n"
    "device server:/b mounted on /mnt/my\\040b with fstype nfs statvers=1.0\n"
    "\topts:\trw,vers=3\n"
    "\tbytes:\t1 2 3 4 5000 6000 7 8\n"
    "\tRPC iostats version: 1.0  p/v: 100003/3 (nfs)\n"
    "device server:/c mounted on /mnt/my\\040b/under with fstype nfs statvers=1.1\n"
    "\tbytes:\t1 2 3 4 5 6 7 8\n"
    "device tmpfs mounted on /mnt/a/tmp with fstype tmpfs\n";

TEST(NfsMountStats, TakesTheDirectAndTheServerBytesOfThisMount) {
  EXPECT_EQ(ParseNfsMountStats(kMountStats, "/mnt/a"), (NfsByteCounts{{300, 400}, {500, 600}}));
  EXPECT_EQ(ParseNfsMountStats(kMountStats, "/mnt/my b"), (NfsByteCounts{{3, 4}, {5000, 6000}}));
  EXPECT_EQ(ParseNfsMountStats(kMountStats, "/mnt"), std::nullopt);
  EXPECT_EQ(ParseNfsMountStats(kMountStats, "/proc"), std::nullopt);
  EXPECT_EQ(ParseNfsMountStats(kMountStats, "/mnt/none"), std::nullopt);
}

TEST(NfsMountStats, TakesTheMountOnTop) {
  const std::string text = "device auto mounted on /mnt/a with fstype autofs\n" +
                           std::string(kMountStats) +
                           "device other:/a mounted on /mnt/a with fstype nfs4 statvers=1.1\n"
                           "\tbytes:\t1 2 3 4 50 60 7 8\n";
  EXPECT_EQ(ParseNfsMountStats(text, "/mnt/a"), (NfsByteCounts{{3, 4}, {50, 60}}));
}

TEST(NfsMountStats, ALineThatIsCutOffIsNoCount) {
  const std::string head = "device s:/a mounted on /a with fstype nfs4 statvers=1.1\n\tbytes:\t";
  EXPECT_EQ(ParseNfsMountStats(head + "1 2 3 4 5", "/a"), std::nullopt);
  EXPECT_EQ(ParseNfsMountStats(head + "1 2 3 4 5 many", "/a"), std::nullopt);
  EXPECT_EQ(ParseNfsMountStats(head, "/a"), std::nullopt);
}

TEST(LustreStats, AddsUpSamples) {
  // The last field, the sum of squares, is of newer releases.
  EXPECT_EQ(ParseLustreStats("snapshot_time 1700000000.1 secs.nsecs\n"
                             "read_bytes 10 samples [bytes] 4096 1048576 7000000\n"
                             "write_bytes 3 samples [bytes] 4096 1048576 3000000 900000\n"),
            (ByteCounts{7000000, 3000000}));
  EXPECT_EQ(ParseLustreStats("snapshot_time 1700000000.1 secs.nsecs\n"), (ByteCounts{0, 0}));
  EXPECT_EQ(ParseLustreStats("nothing"), std::nullopt);
}

TEST(LustreStats, TakesTheLinesThatItIsAskedFor) {
  const char* llite =
      "snapshot_time 1700000000.1 secs.nsecs\n"
      "read_bytes 10 samples [bytes] 4096 1048576 7000000\n"
      "osc_read 3 samples [bytes] 4096 1048576 50\n"
      "osc_write 3 samples [bytes] 4096 1048576 60\n"
      "open 7 samples [regs]\n";
  EXPECT_EQ(ParseLustreStats(llite, "osc_read", "osc_write"), (ByteCounts{50, 60}));
  EXPECT_TRUE(HasLustreLine(llite, "osc_read"));
  EXPECT_FALSE(HasLustreLine(llite, "osc"));
}

TEST(KernelRelease, IsComparedByNumbers) {
  EXPECT_TRUE(IsKernelAtLeast("6.1.0-18-amd64", 5, 12));
  EXPECT_TRUE(IsKernelAtLeast("5.12", 5, 12));
  EXPECT_FALSE(IsKernelAtLeast("5.9.16", 5, 12));
  EXPECT_FALSE(IsKernelAtLeast("4.20.1", 5, 12));
  EXPECT_FALSE(IsKernelAtLeast("5", 5, 0));
  EXPECT_FALSE(IsKernelAtLeast("", 0, 0));
}

TEST(SelectedWord, IsTheOneInBrackets) {
  EXPECT_EQ(SelectedWord("none [mq-deadline] kyber bfq\n"), "mq-deadline");
  EXPECT_EQ(SelectedWord(" write back\n"), "write back");
}

}  // namespace
}  // namespace kvbed
