// The bytes that storage behind a path has moved, by a source that doesn't depend on kvbed: the
// disks' sectors, the NFS mount's server counters, or the Lustre client's.
// It doesn't know what was asked for; byte_proof.h compares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "offload/status.h"
#include "tools/block_device.h"
#include "tools/system_text.h"

namespace kvbed {

enum class CounterSource : uint8_t { kSectors, kMountStats, kLustre, kUnavailable };

std::string_view CounterSourceName(CounterSource source);  // "sectors", "mountstats", ...

class DeviceCounters {
 public:
  // Never fails: where nothing resolves, the source is kUnavailable and reason() says why.
  static DeviceCounters For(const std::string& path, const SystemRoots& roots);

  CounterSource source() const { return source_; }
  const std::string& reason() const { return reason_; }
  // What is counted: disks' names, or the source of the mount.
  const std::vector<std::string>& devices() const { return devices_; }
  // Why storage writes more than it is given by design; empty where it doesn't.
  const std::string& redundancy() const { return redundancy_; }

  // What keeps the data in memory, so that no disk is measured: "tmpfs", "zram0"; empty for none.
  const std::string& memory() const { return memory_; }
  // Why the counters alone prove too little; empty where they prove that storage moved the bytes.
  const std::string& weakness() const { return weakness_; }
  // Whether /proc/self/io of the process that reads and writes counts the same bytes: not on
  // old kernels, and not on FUSE, whose daemon moves them in its place.
  bool process_counts() const { return process_counts_; }

  // Since boot or mount. Not found when the source is kUnavailable.
  Result<ByteCounts> Read() const;
  // What processes moved past the client's page cache. Not found but for NFS.
  Result<ByteCounts> ReadDirect() const;

 private:
  void UseNfs(const Mount& mount, const SystemRoots& roots);
  void UseLustre(const Mount& mount, const SystemRoots& roots);
  void UseDisks(const std::string& path, const SystemRoots& roots);

  CounterSource source_ = CounterSource::kUnavailable;
  std::string reason_;
  std::vector<std::string> devices_;
  std::string redundancy_;
  std::string memory_;
  std::string weakness_;
  bool process_counts_ = true;
  std::vector<std::string> files_;
  std::string mount_point_;
  std::string read_name_ = "read_bytes";  // of Lustre's lines
  std::string write_name_ = "write_bytes";
};

}  // namespace kvbed
