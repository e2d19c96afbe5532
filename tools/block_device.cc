#include "tools/block_device.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace kvbed {
namespace {

namespace fs = std::filesystem;

// A loop device on a file on a loop device, and so on: no deeper than this.
constexpr int kDepthMax = 16;

std::vector<std::string> EntriesOf(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void AddRedundancy(std::string_view what, WholeDisks& disks) {
  if (disks.redundancy.find(what) != std::string::npos) return;
  if (!disks.redundancy.empty()) disks.redundancy += ", ";
  disks.redundancy += what;
}

// zram and brd compress or keep in memory what they are given, null_blk drops it.
bool IsMemoryDevice(std::string_view name) {
  for (std::string_view kind : {"zram", "ram", "nullb"}) {
    if (name.starts_with(kind) && WholeNumber(name.substr(kind.size()))) return true;
  }
  return false;
}

Status Collect(const std::string& folder, const SystemRoots& roots, int depth, WholeDisks& disks);
Status CollectPath(const std::string& path, const SystemRoots& roots, int depth, WholeDisks& disks);

std::string FolderOfNumber(dev_t device, const SystemRoots& roots) {
  return fmt::format("{}/dev/block/{}:{}", roots.sys, major(device), minor(device));
}

// The sysfs folder of a device that mountinfo names, e.g. "/dev/mapper/vg-kv". Its node may be
// missing (in a container) or be a link (of LVM and dm-crypt).
std::optional<std::string> FolderOfSource(const std::string& source, const SystemRoots& roots) {
  if (!source.starts_with("/dev/")) return std::nullopt;
  const fs::path node = roots.dev + source.substr(std::string_view("/dev").size());
  struct stat status {};
  if (::stat(node.c_str(), &status) == 0 && S_ISBLK(status.st_mode)) {
    return FolderOfNumber(status.st_rdev, roots);
  }
  const fs::path all = roots.sys + "/class/block";
  std::error_code error;
  const fs::path real = fs::weakly_canonical(node, error);
  const std::string name = (error ? node : real).filename();
  if (!name.empty() && fs::exists(all / name)) return all / name;
  for (const std::string& entry : EntriesOf(all)) {
    const auto mapped = ReadSystemFile(all / entry / "dm/name");
    if (mapped && Trimmed(*mapped) == name) return all / entry;
  }
  return std::nullopt;
}

// All members of the btrfs that has this device; false when sysfs shows none that has.
Result<bool> CollectBtrfs(const std::string& folder, const SystemRoots& roots, int depth,
                          WholeDisks& disks) {
  std::error_code error;
  const std::string name = fs::canonical(folder, error).filename();
  const fs::path all = roots.sys + "/fs/btrfs";
  for (const std::string& uuid : EntriesOf(all)) {
    const auto members = EntriesOf(all / uuid / "devices");
    if (std::ranges::find(members, name) == members.end()) continue;
    for (const std::string& profile : EntriesOf(all / uuid / "allocation/data")) {
      if (profile == "dup" || (profile.starts_with("raid") && profile != "raid0")) {
        AddRedundancy("btrfs " + profile, disks);
      }
    }
    for (const std::string& member : members) {
      KVBED_RETURN_IF_ERROR(Collect(all / uuid / "devices" / member, roots, depth + 1, disks));
    }
    return true;
  }
  return false;
}

// A filesystem whose device number is no block device's: by the source of its mount.
Status CollectMount(const std::string& path, const SystemRoots& roots, int depth,
                    WholeDisks& disks) {
  KVBED_ASSIGN_OR_RETURN(const Mount mount, FindMount(path, roots));
  if (IsMemoryFilesystem(mount.fs_type)) {
    return Status::NotFound(
        fmt::format("{} lies on {}, which is memory and not a disk", path, mount.fs_type));
  }
  if (mount.fs_type == "overlay") {
    KVBED_ASSIGN_OR_RETURN(const std::string upper, UpperFolder(mount, path));
    return CollectPath(upper, roots, depth + 1, disks);
  }
  // bcachefs names its members as "/dev/sda:/dev/sdb".
  const bool several = mount.fs_type == "bcachefs";
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = several ? mount.source.find(":/", begin) : std::string::npos;
    const std::string source = mount.source.substr(begin, end - begin);
    const auto folder = FolderOfSource(source, roots);
    if (!folder) {
      return Status::NotFound(fmt::format("{} lies on {} ({}), which is no block device in sight",
                                          path, source, mount.fs_type));
    }
    if (mount.fs_type == "btrfs") {
      KVBED_ASSIGN_OR_RETURN(const bool found, CollectBtrfs(*folder, roots, depth, disks));
      if (found) continue;
    }
    KVBED_RETURN_IF_ERROR(Collect(*folder, roots, depth + 1, disks));
  }
  return Status::Ok();
}

Status CollectPath(const std::string& path, const SystemRoots& roots, int depth,
                   WholeDisks& disks) {
  if (depth > kDepthMax) return Status::NotFound(fmt::format("{} lies too deep", path));
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return StatusFromErrno(errno, fmt::format("stat {}", path));
  }
  if (S_ISBLK(status.st_mode)) {
    return Collect(FolderOfNumber(status.st_rdev, roots), roots, depth, disks);
  }
  const std::string folder = FolderOfNumber(status.st_dev, roots);
  if (fs::exists(folder)) return Collect(folder, roots, depth, disks);
  return CollectMount(path, roots, depth, disks);
}

// A loop device's file lies on a filesystem of its own.
Status CollectLoop(const fs::path& block, std::string_view file, const SystemRoots& roots,
                   int depth, WholeDisks& disks) {
  return CollectPath(std::string(file), roots, depth + 1, disks)
      .WithContext(fmt::format("{} is a loop device over a file", block.filename().string()));
}

Status Collect(const std::string& folder, const SystemRoots& roots, int depth, WholeDisks& disks) {
  std::error_code error;
  fs::path block = fs::canonical(folder, error);
  if (error || depth > kDepthMax) {
    return Status::NotFound(fmt::format("{} is not in sysfs", folder));
  }
  if (fs::exists(block / "partition")) block = block.parent_path();
  if (const auto file = ReadSystemFile(block / "loop/backing_file")) {
    return CollectLoop(block, Trimmed(*file), roots, depth, disks);
  }
  if (const auto level = ReadSystemFile(block / "md/level")) {
    const std::string_view name = Trimmed(*level);
    if (name != "raid0" && name != "linear") AddRedundancy(fmt::format("md {}", name), disks);
  }
  // LVM's mirrors and RAIDs: sysfs doesn't say which level, the names of their legs that it is one.
  const std::string mapped = ReadSystemFile(block / "dm/name").value_or("");
  if (mapped.find("_rimage_") != std::string::npos ||
      mapped.find("_mimage_") != std::string::npos) {
    AddRedundancy("LVM RAID", disks);
  }
  const auto slaves = EntriesOf(block / "slaves");
  for (const std::string& slave : slaves) {
    KVBED_RETURN_IF_ERROR(Collect(block / "slaves" / slave, roots, depth + 1, disks));
  }
  if (!slaves.empty()) return Status::Ok();
  if (IsMemoryDevice(block.filename().native())) disks.memory = block.filename();
  if (std::ranges::find(disks.folders, block.native()) == disks.folders.end()) {
    disks.folders.push_back(block);
  }
  return Status::Ok();
}

DiskFact Fact(const fs::path& file) {
  const auto text = ReadSystemFile(file);
  if (!text || Trimmed(*text).empty()) {
    return {std::nullopt, fmt::format("no {}", file.string())};
  }
  return {SelectedWord(*text), {}};
}

// The first of several files that exists.
DiskFact AnyFact(const std::vector<fs::path>& files, const std::string& what) {
  for (const fs::path& file : files) {
    if (DiskFact fact = Fact(file); fact.value) return fact;
  }
  return {std::nullopt, what};
}

// The link of the PCI device that the disk hangs on: the nearest parent that has one.
DiskFact Link(const fs::path& folder) {
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path()) {
    const DiskFact speed = Fact(at / "current_link_speed");
    const DiskFact width = Fact(at / "current_link_width");
    if (speed.value && width.value) {
      return {fmt::format("{} x{}", *speed.value, *width.value), {}};
    }
  }
  return {std::nullopt, "no PCI Express link above it in sysfs"};
}

DiskFact Temperature(const fs::path& folder) {
  for (const fs::path& base :
       {folder / "device", folder / "device/hwmon", folder / "device/device/hwmon"}) {
    for (const std::string& entry : EntriesOf(base)) {
      if (!entry.starts_with("hwmon")) continue;
      const DiskFact milli = Fact(base / entry / "temp1_input");
      const auto number = milli.value ? WholeNumber(*milli.value) : std::nullopt;
      if (number) return {fmt::format("{:.1f}", static_cast<double>(*number) / 1000), {}};
    }
  }
  return {std::nullopt, "no hwmon sensor of it in sysfs"};
}

}  // namespace

std::optional<std::string> ReadSystemFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string NearestExisting(const std::string& path) {
  std::error_code error;
  fs::path existing = fs::absolute(path, error);
  while (!fs::exists(existing, error) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  return existing;
}

Result<Mount> FindMount(const std::string& path, const SystemRoots& roots) {
  const auto text = ReadSystemFile(roots.proc + "/self/mountinfo");
  if (!text) return Status::IoError(fmt::format("can't read {}/self/mountinfo", roots.proc));
  std::error_code error;
  fs::path real = fs::weakly_canonical(path, error);
  if (error) real = fs::absolute(path, error);
  const auto mounts = ParseMountInfo(*text);
  const Mount* mount = MountOf(mounts, real.native());
  if (mount == nullptr) return Status::NotFound(fmt::format("no mount holds {}", path));
  return *mount;
}

bool IsMemoryFilesystem(std::string_view fs_type) {
  return fs_type == "tmpfs" || fs_type == "ramfs" || fs_type == "hugetlbfs" ||
         fs_type == "devtmpfs";
}

Result<std::string> UpperFolder(const Mount& overlay, const std::string& path) {
  const auto upper = MountOption(overlay.options, "upperdir");
  if (upper && upper->starts_with('/') && fs::exists(*upper)) return *upper;
  return Status::NotFound(
      fmt::format("{} lies on an overlay whose upper folder can't be seen from here", path));
}

Result<WholeDisks> WholeDisksOf(const std::string& block_folder, const SystemRoots& roots) {
  WholeDisks disks;
  KVBED_RETURN_IF_ERROR(Collect(block_folder, roots, 0, disks));
  return disks;
}

Result<WholeDisks> FindWholeDisks(const std::string& path, const SystemRoots& roots) {
  WholeDisks disks;
  KVBED_RETURN_IF_ERROR(CollectPath(NearestExisting(path), roots, 0, disks));
  return disks;
}

DiskDescription DescribeDisk(const std::string& folder) {
  const fs::path block = folder;
  const fs::path device = block / "device";
  DiskDescription disk;
  disk.name = block.filename();
  disk.model = AnyFact({device / "model", device / "name"}, "sysfs names no model");
  disk.firmware = AnyFact({device / "firmware_rev", device / "rev"}, "sysfs names no firmware");
  disk.link = Link(block);
  disk.temperature_c = Temperature(block);
  disk.scheduler = Fact(block / "queue/scheduler");
  disk.max_sectors_kb = Fact(block / "queue/max_sectors_kb");
  disk.write_cache = Fact(block / "queue/write_cache");
  disk.rotational = Fact(block / "queue/rotational");
  disk.size_bytes = Fact(block / "size");
  const auto sectors = disk.size_bytes.value ? WholeNumber(*disk.size_bytes.value) : std::nullopt;
  if (sectors) disk.size_bytes.value = fmt::format("{}", *sectors * 512);
  return disk;
}

}  // namespace kvbed
