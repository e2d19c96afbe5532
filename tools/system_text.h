// Parsers of the texts in /proc and /sys. Each takes the text, so that it knows no path and can be
// tested with another machine's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvbed {

// Bytes that something read and wrote since it began to count.
struct ByteCounts {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  bool operator==(const ByteCounts&) const = default;
};

std::string_view Trimmed(std::string_view text);
std::vector<std::string_view> SplitWords(std::string_view text);
std::vector<std::string_view> SplitLines(std::string_view text);
std::optional<uint64_t> WholeNumber(std::string_view text);

// The first line "key : value" of /proc/cpuinfo and its like.
std::optional<std::string> ValueOfKey(std::string_view text, std::string_view key);

// /proc/meminfo's "MemTotal:  1234 kB" in bytes.
std::optional<uint64_t> MemInfoBytes(std::string_view text, std::string_view key);

// /proc/cpuinfo. Counts are 0 where the text doesn't say (not every architecture's does).
struct CpuInfo {
  std::string model;
  uint64_t logical = 0;
  uint64_t cores = 0;
  uint64_t sockets = 0;
  bool hypervisor = false;
  std::vector<std::string> features;  // of those that matter for kernels and hashes
};
CpuInfo ParseCpuInfo(std::string_view text);

// A line of /proc/self/mountinfo.
struct Mount {
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  std::string mount_point;
  std::string options;  // the mount's, then the filesystem's
  std::string fs_type;
  std::string source;
};
std::vector<Mount> ParseMountInfo(std::string_view text);
// The mount that an absolute path without symbolic links lies on; null when there is none.
const Mount* MountOf(const std::vector<Mount>& mounts, std::string_view path);
// The value of "name=value" in a list of mount options.
std::optional<std::string> MountOption(std::string_view options, std::string_view name);

// /proc/self/io: what this process made storage read and write.
std::optional<ByteCounts> ParseProcessIo(std::string_view text);

// /sys/block/X/stat, whose sectors are always 512 bytes.
std::optional<ByteCounts> ParseDiskStat(std::string_view text);

// /proc/self/mountstats, statvers 1.0 and 1.1, of one NFS mount.
struct NfsByteCounts {
  ByteCounts direct;  // what processes moved past the client's page cache
  ByteCounts server;  // what the server was asked to read and write, on whosever behalf
  bool operator==(const NfsByteCounts&) const = default;
};
std::optional<NfsByteCounts> ParseNfsMountStats(std::string_view text,
                                                std::string_view mount_point);

// A stats file of Lustre: the lines of these names, absent ones being 0. The files of object
// storage clients (osc) have read_bytes and write_bytes, which the servers moved.
std::optional<ByteCounts> ParseLustreStats(std::string_view text,
                                           std::string_view read_name = "read_bytes",
                                           std::string_view write_name = "write_bytes");
// Whether a stats file has a line of this name.
bool HasLustreLine(std::string_view text, std::string_view name);

// Whether a kernel's release ("6.1.0-18-amd64") is this one or later; false for an unknown text.
bool IsKernelAtLeast(std::string_view release, uint64_t major, uint64_t minor);

// "none [mq-deadline] kyber" -> "mq-deadline"; a text without brackets is its own trimmed self.
std::string SelectedWord(std::string_view text);

}  // namespace kvbed
