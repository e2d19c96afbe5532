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

Status Collect(const std::string& folder, const SystemRoots& roots, int depth, WholeDisks& disks);

Status CollectPath(const std::string& path, const SystemRoots& roots, int depth,
                   WholeDisks& disks) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return StatusFromErrno(errno, fmt::format("stat {}", path));
  }
  const auto folder_of = [&](dev_t device) {
    return fmt::format("{}/dev/block/{}:{}", roots.sys, major(device), minor(device));
  };
  if (S_ISBLK(status.st_mode)) return Collect(folder_of(status.st_rdev), roots, depth, disks);
  if (fs::exists(folder_of(status.st_dev))) {
    return Collect(folder_of(status.st_dev), roots, depth, disks);
  }
  KVBED_ASSIGN_OR_RETURN(const Mount mount, FindMount(path, roots));
  if (mount.fs_type == "overlay") {
    const auto upper = MountOption(mount.options, "upperdir");
    if (upper && fs::exists(*upper)) return CollectPath(*upper, roots, depth + 1, disks);
    return Status::NotFound(
        fmt::format("{} lies on an overlay whose upper folder can't be seen from here", path));
  }
  if (!mount.source.starts_with("/dev/") || !fs::is_block_file(mount.source)) {
    return Status::NotFound(fmt::format("{} lies on {} ({}), which is no block device", path,
                                        mount.source, mount.fs_type));
  }
  if (mount.fs_type == "btrfs") {
    const std::string name = fs::canonical(mount.source).filename();
    const fs::path all = roots.sys + "/fs/btrfs";
    for (const std::string& uuid : EntriesOf(all)) {
      const auto members = EntriesOf(all / uuid / "devices");
      if (std::ranges::find(members, name) == members.end()) continue;
      if (members.size() > 1) disks.redundancy = "btrfs of several devices";
      for (const std::string& member : members) {
        KVBED_RETURN_IF_ERROR(Collect(all / uuid / "devices" / member, roots, depth, disks));
      }
      return Status::Ok();
    }
  }
  return CollectPath(mount.source, roots, depth + 1, disks);
}

Status Collect(const std::string& folder, const SystemRoots& roots, int depth, WholeDisks& disks) {
  std::error_code error;
  fs::path block = fs::canonical(folder, error);
  if (error || depth > kDepthMax) {
    return Status::NotFound(fmt::format("{} is not in sysfs", folder));
  }
  if (fs::exists(block / "partition")) block = block.parent_path();
  if (const auto file = ReadSystemFile(block / "loop/backing_file")) {
    return CollectPath(std::string(Trimmed(*file)), roots, depth + 1, disks);
  }
  if (const auto level = ReadSystemFile(block / "md/level")) {
    const std::string_view name = Trimmed(*level);
    if (name != "raid0" && name != "linear") disks.redundancy = fmt::format("md {}", name);
  }
  const auto slaves = EntriesOf(block / "slaves");
  for (const std::string& slave : slaves) {
    KVBED_RETURN_IF_ERROR(Collect(block / "slaves" / slave, roots, depth + 1, disks));
  }
  if (slaves.empty() && std::ranges::find(disks.folders, block.native()) == disks.folders.end()) {
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
