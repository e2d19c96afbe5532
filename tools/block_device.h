// The disks behind a path and what sysfs says of each. It follows the mount, overlays, partitions,
// LVM, dm, md and loop devices down to whole disks, and moves no data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "offload/status.h"
#include "tools/system_text.h"

namespace kvbed {

// Where the kernel's files are; tests put a made-up tree in their place.
struct SystemRoots {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string dev = "/dev";
};

std::optional<std::string> ReadSystemFile(const std::string& path);

// `path`, or its nearest parent that exists.
std::string NearestExisting(const std::string& path);

// The mount that holds `path`, or its nearest parent that exists.
Result<Mount> FindMount(const std::string& path, const SystemRoots& roots);

// Whether a filesystem of this type keeps its files in memory ("tmpfs").
bool IsMemoryFilesystem(std::string_view fs_type);

// The folder that new files of an overlay mount go to. Not found where it can't be seen from here.
Result<std::string> UpperFolder(const Mount& overlay, const std::string& path);

struct WholeDisks {
  std::vector<std::string> folders;  // in sysfs, e.g. "/sys/devices/.../block/nvme0n1"
  // Levels between path and disks that write more than they are given, e.g. "md raid1"; empty for
  // none.
  std::string redundancy;
  // A block device that keeps its data in memory or nowhere, e.g. "zram0"; empty for none.
  std::string memory;
};

// The whole disks under a block device's folder in sysfs, each once.
Result<WholeDisks> WholeDisksOf(const std::string& block_folder, const SystemRoots& roots);

// Those that `path` lies on. Not found, with the reason, where no block device is behind it.
Result<WholeDisks> FindWholeDisks(const std::string& path, const SystemRoots& roots);

// A fact, or why it is not known.
struct DiskFact {
  std::optional<std::string> value;
  std::string reason;
};

struct DiskDescription {
  std::string name;  // "nvme0n1"
  DiskFact model;
  DiskFact firmware;
  DiskFact link;  // "16.0 GT/s PCIe x4"
  DiskFact temperature_c;
  DiskFact scheduler;
  DiskFact max_sectors_kb;
  DiskFact write_cache;
  DiskFact rotational;
  DiskFact size_bytes;
};
DiskDescription DescribeDisk(const std::string& folder);

}  // namespace kvbed
