#include "backends/direct_io.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

// Numbers that linux/magic.h lacks, from the filesystems' sources and from man 2 statfs.
constexpr uint64_t kXfs = 0x58465342;
constexpr uint64_t kZfs = 0x2fc12fc1;
constexpr uint64_t kLustre = 0x0bd00bd0;
constexpr uint64_t kCephKernel = 0x00c36400;
constexpr uint64_t kGpfs = 0x47504653;
constexpr uint64_t kBeegfs = 0x19830326;
constexpr uint64_t kBcachefs = 0xca451a4e;
constexpr uint64_t kNtfs3 = 0x7366746e;
constexpr uint64_t kExfat = 0x2011bab0;
constexpr uint64_t kV9fs = 0x01021997;
constexpr uint64_t kFuse = 0x65735546;
constexpr uint64_t kCifs = 0xff534d42;
constexpr uint64_t kSmb2 = 0xfe534d42;

constexpr std::array kFilesystems{
    std::pair<uint64_t, const char*>{EXT4_SUPER_MAGIC, "ext4"},
    std::pair<uint64_t, const char*>{kXfs, "xfs"},
    std::pair<uint64_t, const char*>{BTRFS_SUPER_MAGIC, "btrfs"},
    std::pair<uint64_t, const char*>{F2FS_SUPER_MAGIC, "f2fs"},
    std::pair<uint64_t, const char*>{TMPFS_MAGIC, "tmpfs"},
    std::pair<uint64_t, const char*>{RAMFS_MAGIC, "ramfs"},
    std::pair<uint64_t, const char*>{HUGETLBFS_MAGIC, "hugetlbfs"},
    std::pair<uint64_t, const char*>{NFS_SUPER_MAGIC, "nfs"},
    std::pair<uint64_t, const char*>{OVERLAYFS_SUPER_MAGIC, "overlayfs"},
    std::pair<uint64_t, const char*>{kZfs, "zfs"},
    std::pair<uint64_t, const char*>{kBcachefs, "bcachefs"},
    std::pair<uint64_t, const char*>{kLustre, "lustre"},
    std::pair<uint64_t, const char*>{kCephKernel, "ceph"},
    std::pair<uint64_t, const char*>{kGpfs, "gpfs"},
    std::pair<uint64_t, const char*>{kBeegfs, "beegfs"},
    std::pair<uint64_t, const char*>{kFuse, "fuse"},
    std::pair<uint64_t, const char*>{kCifs, "cifs"},
    std::pair<uint64_t, const char*>{kSmb2, "smb2"},
    std::pair<uint64_t, const char*>{kV9fs, "9p"},
    std::pair<uint64_t, const char*>{ECRYPTFS_SUPER_MAGIC, "ecryptfs"},
    std::pair<uint64_t, const char*>{SQUASHFS_MAGIC, "squashfs"},
    std::pair<uint64_t, const char*>{MSDOS_SUPER_MAGIC, "vfat"},
    std::pair<uint64_t, const char*>{kExfat, "exfat"},
    std::pair<uint64_t, const char*>{kNtfs3, "ntfs3"},
};

// One aligned block written and read back on a new file. The file's alignment.
Result<uint32_t> Probe(Io& io, const std::string& path) {
  KVBED_ASSIGN_OR_RETURN(
      const File file,
      io.Open(path, {.write = true, .create = true, .exclusive = true, .direct = true}));
  const uint64_t block_bytes = RoundUp(kPageBytes, file.alignment_bytes());
  KVBED_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(2 * block_bytes));
  const MutableBytes out = buffer.bytes().first(block_bytes);
  const MutableBytes in = buffer.bytes().subspan(block_bytes, block_bytes);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * 7 + i / 256);
  KVBED_ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> queue, io.OpenQueue({.iodepth = 1}));
  IoRequest write{.op = IoOp::kWrite, .file = &file, .buffer = out};
  KVBED_RETURN_IF_ERROR(MoveAlone(*queue, write));
  IoRequest read{.op = IoOp::kRead, .file = &file, .buffer = in};
  KVBED_RETURN_IF_ERROR(MoveAlone(*queue, read));
  if (std::memcmp(out.data(), in.data(), block_bytes) != 0) {
    return Status::IoError(fmt::format("read {}: not the bytes that were written", path));
  }
  return file.alignment_bytes();
}

}  // namespace

Result<DirectProbe> ProbeDirect(Io& io, const std::string& directory) {
  const std::string path = TemporaryPath(directory + "/direct-io-probe");
  const Result<uint32_t> alignment_bytes = Probe(io, path);
  const Status removed = io.Unlink(path);
  if (!alignment_bytes.ok()) {
    return alignment_bytes.status().WithContext(
        fmt::format("direct I/O was tried in {} and failed", directory));
  }
  KVBED_RETURN_IF_ERROR(removed);
  DirectProbe probe{.alignment_bytes = *alignment_bytes};
  KVBED_ASSIGN_OR_RETURN(probe.filesystem, FilesystemType(directory));
  return probe;
}

Result<std::string> FilesystemType(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return StatusFromErrno(errno, "statfs " + path);
  // f_type is a signed word; the numbers are 32 bits wide.
  const uint64_t number = static_cast<uint32_t>(info.f_type);
  for (const auto& [known, name] : kFilesystems) {
    if (known == number) return std::string(name);
  }
  return fmt::format("{:#x}", number);
}

}  // namespace kvbed
