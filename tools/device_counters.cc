#include "tools/device_counters.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "backends/direct_io.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

// "MGS@tcp:/scratch" -> "scratch".
std::string LustreName(const std::string& source) {
  const size_t slash = source.rfind(":/");
  const std::string name = slash == std::string::npos ? "" : source.substr(slash + 2);
  return name.substr(0, name.find('/'));
}

// The readable stats files of the client's parts ("osc", "llite") whose names begin so; where they
// are depends on the release.
std::vector<std::string> LustreStatsFiles(const std::string& part, const std::string& prefix,
                                          const SystemRoots& roots) {
  std::vector<std::string> files;
  for (const std::string& base :
       {roots.sys + "/kernel/debug/lustre/", roots.proc + "/fs/lustre/"}) {
    std::error_code error;
    for (fs::directory_iterator it(base + part, error), end; !error && it != end;
         it.increment(error)) {
      const std::string stats = it->path() / "stats";
      if (it->path().filename().native().starts_with(prefix) && ReadSystemFile(stats)) {
        files.push_back(stats);
      }
    }
    if (!files.empty()) break;
  }
  return files;
}

// The mount that new files in `path` go to: an overlay's are its upper folder's.
Result<Mount> MountOfNewFiles(std::string& path, const SystemRoots& roots) {
  constexpr int kOverlaysMost = 8;
  for (int depth = 0; depth < kOverlaysMost; ++depth) {
    KVBED_ASSIGN_OR_RETURN(const Mount mount, FindMount(path, roots));
    if (mount.fs_type != "overlay") return mount;
    KVBED_ASSIGN_OR_RETURN(path, UpperFolder(mount, path));
  }
  return Status::NotFound("overlays over overlays without end");
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

void DeviceCounters::UseNfs(const Mount& mount, const SystemRoots& roots) {
  source_ = CounterSource::kMountStats;
  files_ = {roots.proc + "/self/mountstats"};
  mount_point_ = mount.mount_point;
  devices_ = {mount.source};
}

void DeviceCounters::UseLustre(const Mount& mount, const SystemRoots& roots) {
  source_ = CounterSource::kLustre;
  devices_ = {mount.source};
  const std::string name = LustreName(mount.source);
  files_ = LustreStatsFiles("osc", name + "-OST", roots);
  if (!files_.empty()) return;
  files_ = LustreStatsFiles("llite", name + "-", roots);
  if (files_.empty()) {
    source_ = CounterSource::kUnavailable;
    reason_ = fmt::format("no statistics of Lustre's clients of {} can be read (are you root?)",
                          mount.source);
    return;
  }
  const std::string text = ReadSystemFile(files_.front()).value_or("");
  if (HasLustreLine(text, "osc_read") || HasLustreLine(text, "osc_write")) {
    read_name_ = "osc_read";
    write_name_ = "osc_write";
    return;
  }
  weakness_ =
      "Lustre's llite counts what was asked of it, also what its cache answered, and the counters "
      "of its object storage clients can't be read (are you root?)";
}

void DeviceCounters::UseDisks(const std::string& path, const SystemRoots& roots) {
  const auto disks = FindWholeDisks(path, roots);
  if (!disks.ok()) {
    reason_ = disks.status().message();
    return;
  }
  source_ = CounterSource::kSectors;
  redundancy_ = disks->redundancy;
  if (!disks->memory.empty()) memory_ = disks->memory;
  for (const std::string& folder : disks->folders) {
    files_.push_back(folder + "/stat");
    devices_.push_back(fs::path(folder).filename());
  }
}

DeviceCounters DeviceCounters::For(const std::string& path, const SystemRoots& roots) {
  DeviceCounters counters;
  std::string place = NearestExisting(path);
  const auto mount = MountOfNewFiles(place, roots);
  // In a chroot no mount may be in sight; the filesystem still says what it is.
  const auto fs_type_of = [&]() -> std::string {
    if (mount.ok()) return mount->fs_type;
    const auto type = FilesystemType(place);
    return type.ok() ? *type : "";
  };
  const std::string fs_type = fs_type_of();
  if (IsMemoryFilesystem(fs_type)) counters.memory_ = fs_type;
  // Until 5.12 the workers of io_uring were the kernel's threads and not the process's.
  const std::string release = ReadSystemFile(roots.proc + "/sys/kernel/osrelease").value_or("");
  counters.process_counts_ = IsKernelAtLeast(release, 5, 12) && !fs_type.starts_with("fuse");
  if (fs_type == "nfs" || fs_type == "nfs4") {
    if (mount.ok()) counters.UseNfs(*mount, roots);
  } else if (fs_type == "lustre") {
    if (mount.ok()) counters.UseLustre(*mount, roots);
  } else {
    counters.UseDisks(place, roots);
  }
  if (counters.source_ == CounterSource::kUnavailable) {
    if (counters.reason_.empty()) counters.reason_ = mount.status().message();
    return counters;
  }
  if (const auto probe = counters.Read(); !probe.ok()) {
    counters.source_ = CounterSource::kUnavailable;
    counters.reason_ = probe.status().message();
  }
  return counters;
}

Result<ByteCounts> DeviceCounters::Read() const {
  if (source_ == CounterSource::kUnavailable) return Status::NotFound(reason_);
  const auto parse = [&](const std::string& text) -> std::optional<ByteCounts> {
    if (source_ == CounterSource::kSectors) return ParseDiskStat(text);
    if (source_ == CounterSource::kLustre) return ParseLustreStats(text, read_name_, write_name_);
    const auto nfs = ParseNfsMountStats(text, mount_point_);
    return nfs ? std::optional(nfs->server) : std::nullopt;
  };
  ByteCounts sum;
  for (const std::string& file : files_) {
    const auto text = ReadSystemFile(file);
    const auto counts = text ? parse(*text) : std::nullopt;
    if (!counts) return Status::NotFound(fmt::format("{} has no byte counters", file));
    sum.read_bytes += counts->read_bytes;
    sum.written_bytes += counts->written_bytes;
  }
  return sum;
}

Result<ByteCounts> DeviceCounters::ReadDirect() const {
  if (source_ != CounterSource::kMountStats) {
    return Status::NotFound("only NFS counts direct I/O apart");
  }
  const auto text = ReadSystemFile(files_.front());
  const auto counts = text ? ParseNfsMountStats(*text, mount_point_) : std::nullopt;
  if (!counts) return Status::NotFound(fmt::format("{} has no byte counters", files_.front()));
  return counts->direct;
}

}  // namespace kvbed
