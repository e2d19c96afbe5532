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
  // What is counted: disks' names, or the mount.
  const std::vector<std::string>& devices() const { return devices_; }
  // Why storage writes more than it is given by design; empty where it doesn't.
  const std::string& redundancy() const { return redundancy_; }

  // Since boot or mount. Not found when the source is kUnavailable.
  Result<ByteCounts> Read() const;

 private:
  CounterSource source_ = CounterSource::kUnavailable;
  std::string reason_;
  std::vector<std::string> devices_;
  std::string redundancy_;
  std::vector<std::string> files_;
  std::string mount_point_;
};

}  // namespace kvbed
