#include "tools/device_counters.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

namespace kvbed {
namespace {

namespace fs = std::filesystem;

// "MGS@tcp:/scratch" -> "scratch".
std::string LustreName(const std::string& source) {
  const size_t slash = source.rfind(":/");
  const std::string name = slash == std::string::npos ? "" : source.substr(slash + 2);
  return name.substr(0, name.find('/'));
}

// The stats of the filesystem's object storage clients; where they are depends on the release.
std::vector<std::string> LustreStatsFiles(const std::string& name, const SystemRoots& roots) {
  std::vector<std::string> files;
  for (const std::string& base :
       {roots.sys + "/kernel/debug/lustre/osc", roots.proc + "/fs/lustre/osc"}) {
    std::error_code error;
    for (fs::directory_iterator it(base, error), end; !error && it != end; it.increment(error)) {
      const std::string client = it->path().filename();
      if (client.starts_with(name + "-OST")) files.push_back(it->path() / "stats");
    }
    if (!files.empty()) break;
  }
  return files;
}

std::optional<ByteCounts> Parse(CounterSource source, const std::string& text,
                                const std::string& mount_point) {
  switch (source) {
    case CounterSource::kSectors: return ParseDiskStat(text);
    case CounterSource::kMountStats: return ParseNfsMountStats(text, mount_point);
    case CounterSource::kLustre: return ParseLustreStats(text);
    case CounterSource::kUnavailable: break;
  }
  return std::nullopt;
}

}  // namespace

std::string_view CounterSourceName(CounterSource source) {
  switch (source) {
    case CounterSource::kSectors: return "sectors";
    case CounterSource::kMountStats: return "mountstats";
    case CounterSource::kLustre: return "lustre";
    case CounterSource::kUnavailable: break;
  }
  return "unavailable";
}

DeviceCounters DeviceCounters::For(const std::string& path, const SystemRoots& roots) {
  DeviceCounters counters;
  const auto mount = FindMount(path, roots);
  if (mount.ok() && mount->fs_type.starts_with("nfs")) {
    counters.source_ = CounterSource::kMountStats;
    counters.files_ = {roots.proc + "/self/mountstats"};
    counters.mount_point_ = mount->mount_point;
    counters.devices_ = {mount->source};
  } else if (mount.ok() && mount->fs_type == "lustre") {
    counters.source_ = CounterSource::kLustre;
    counters.files_ = LustreStatsFiles(LustreName(mount->source), roots);
    counters.devices_ = {mount->source};
    if (counters.files_.empty()) {
      counters.source_ = CounterSource::kUnavailable;
      counters.reason_ = fmt::format("no statistics of Lustre's clients of {}", mount->source);
    }
  } else if (const auto disks = FindWholeDisks(path, roots); disks.ok()) {
    counters.source_ = CounterSource::kSectors;
    counters.redundancy_ = disks->redundancy;
    for (const std::string& folder : disks->folders) {
      counters.files_.push_back(folder + "/stat");
      counters.devices_.push_back(fs::path(folder).filename());
    }
  } else {
    counters.reason_ = disks.status().message();
  }
  if (counters.source_ == CounterSource::kUnavailable) return counters;
  if (const auto probe = counters.Read(); !probe.ok()) {
    counters.source_ = CounterSource::kUnavailable;
    counters.reason_ = probe.status().message();
  }
  return counters;
}

Result<ByteCounts> DeviceCounters::Read() const {
  if (source_ == CounterSource::kUnavailable) return Status::NotFound(reason_);
  ByteCounts sum;
  for (const std::string& file : files_) {
    const auto text = ReadSystemFile(file);
    const auto counts = text ? Parse(source_, *text, mount_point_) : std::nullopt;
    if (!counts) return Status::NotFound(fmt::format("{} has no byte counters", file));
    sum.read_bytes += counts->read_bytes;
    sum.written_bytes += counts->written_bytes;
  }
  return sum;
}

}  // namespace kvbed
