#include "tools/environment.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backends/direct_io.h"
#include "tools/version.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

template <class T>
Known<T> Value(T value) {
  return {std::move(value), {}};
}
template <class T>
Known<T> Absent(std::string reason) {
  return {std::nullopt, std::move(reason)};
}
template <class T>
Known<T> ValueOr(std::optional<T> value, std::string reason) {
  return value ? Value(std::move(*value)) : Absent<T>(std::move(reason));
}

Known<std::string> FileText(const std::string& path) {
  const auto text = ReadSystemFile(path);
  if (!text) return Absent<std::string>(fmt::format("no {}", path));
  return Value(SelectedWord(*text));
}

Known<uint64_t> KnownCount(uint64_t count) {
  return count > 0 ? Value(count) : Absent<uint64_t>("/proc/cpuinfo doesn't say");
}

uint64_t UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
  return static_cast<uint64_t>(CPU_COUNT(&set));
}

Known<uint64_t> NumaNodes(const std::string& sys) {
  const fs::path folder = sys + "/devices/system/node";
  uint64_t nodes = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (name.starts_with("node") && WholeNumber(name.substr(4))) ++nodes;
  }
  if (nodes == 0) return Absent<uint64_t>(fmt::format("no nodes in {}", folder.string()));
  return Value(nodes);
}

Known<std::string> OperatingSystem() {
  const std::string text = ReadSystemFile("/etc/os-release").value_or("");
  for (std::string_view line : SplitLines(text)) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    std::string_view name = Trimmed(line.substr(kKey.size()));
    if (name.size() >= 2 && name.front() == '"') name = name.substr(1, name.size() - 2);
    return Value(std::string(name));
  }
  return Absent<std::string>("no PRETTY_NAME in /etc/os-release");
}

Known<std::string> Container(const std::string& proc) {
  if (fs::exists("/.dockerenv")) return Value<std::string>("docker");
  if (fs::exists("/run/.containerenv")) return Value<std::string>("podman");
  const auto cgroup = ReadSystemFile(proc + "/1/cgroup");
  if (!cgroup) return Absent<std::string>(fmt::format("can't read {}/1/cgroup", proc));
  for (const char* name : {"docker", "kubepods", "containerd", "lxc", "libpod"}) {
    if (cgroup->find(name) != std::string::npos) return Value<std::string>(name);
  }
  return Value<std::string>("no");
}

Known<std::string> VirtualMachine(const CpuInfo& cpu, const std::string& sys) {
  const auto product = ReadSystemFile(sys + "/class/dmi/id/product_name");
  const std::string name(Trimmed(product.value_or("")));
  if (cpu.hypervisor) return Value(name.empty() ? std::string("a hypervisor") : name);
  if (cpu.features.empty()) return Absent<std::string>("/proc/cpuinfo doesn't say");
  return Value<std::string>("no");
}

void ReadFilesystem(const std::string& path, const SystemRoots& roots, Environment& environment) {
  if (const auto mount = FindMount(path, roots); mount.ok()) {
    environment.fs_type = Value(mount->fs_type);
    environment.mount_point = Value(mount->mount_point);
    environment.mount_options = Value(mount->options);
  } else {
    // In a chroot no mount may be in sight; the filesystem still says what it is.
    environment.mount_point = Absent<std::string>(mount.status().message());
    environment.mount_options = environment.mount_point;
    const auto type = FilesystemType(NearestExisting(path));
    environment.fs_type = type.ok() ? Value(*type) : Absent<std::string>(type.status().message());
  }
  struct statvfs space {};
  if (::statvfs(NearestExisting(path).c_str(), &space) == 0) {
    environment.free_bytes = Value(uint64_t{space.f_bavail} * space.f_frsize);
  } else {
    environment.free_bytes = Absent<uint64_t>(fmt::format("statvfs {} failed", path));
  }
  if (const auto disks = FindWholeDisks(path, roots); disks.ok()) {
    for (const std::string& folder : disks->folders) {
      environment.block_devices.push_back(DescribeDisk(folder));
    }
  } else {
    environment.block_devices_reason = disks.status().message();
  }
}

void Set(Json& out, const char* name, const Known<uint64_t>& known) {
  SetOrReason(out, name, known.value, known.reason);
}
void Set(Json& out, const char* name, const Known<std::string>& known) {
  SetOrReason(out, name, known.value, known.reason);
}
void SetText(Json& out, const char* name, const DiskFact& fact) {
  SetOrReason(out, name, fact.value, fact.reason);
}
void SetNumber(Json& out, const char* name, const DiskFact& fact) {
  std::optional<uint64_t> number;
  if (fact.value) number = WholeNumber(*fact.value);
  SetOrReason(out, name, number, fact.value ? "not a number: " + *fact.value : fact.reason);
}

Json DiskJson(const DiskDescription& disk) {
  Json out;
  out["name"] = disk.name;
  SetText(out, "model", disk.model);
  SetText(out, "firmware", disk.firmware);
  SetText(out, "link", disk.link);
  std::optional<double> celsius;
  if (disk.temperature_c.value) celsius = std::strtod(disk.temperature_c.value->c_str(), nullptr);
  SetOrReason(out, "temperature_c", celsius, disk.temperature_c.reason);
  SetText(out, "scheduler", disk.scheduler);
  SetNumber(out, "max_sectors_kb", disk.max_sectors_kb);
  SetText(out, "write_cache", disk.write_cache);
  SetNumber(out, "rotational", disk.rotational);
  SetNumber(out, "size_bytes", disk.size_bytes);
  return out;
}

}  // namespace

Environment ReadEnvironment(const EnvironmentQuery& query, const SystemRoots& roots) {
  Environment environment;
  const CpuInfo cpu = ParseCpuInfo(ReadSystemFile(roots.proc + "/cpuinfo").value_or(""));
  environment.cpu = cpu.model.empty() ? "unknown" : cpu.model;
  environment.cpu_features = cpu.features;
  environment.cores = KnownCount(cpu.cores);
  environment.sockets = KnownCount(cpu.sockets);
  environment.cpus_online = static_cast<uint64_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 0L));
  environment.cpus_usable = UsableCpus();
  environment.numa_nodes = NumaNodes(roots.sys);
  const std::string meminfo = ReadSystemFile(roots.proc + "/meminfo").value_or("");
  environment.memory_bytes = ValueOr(MemInfoBytes(meminfo, "MemTotal"), "no MemTotal");
  environment.memory_available_bytes =
      ValueOr(MemInfoBytes(meminfo, "MemAvailable"), "no MemAvailable");
  environment.kernel = KernelVersion();
  environment.os = OperatingSystem();
  if (query.path.empty()) {
    const std::string reason = "the store has no files";
    environment.fs_type = Absent<std::string>(reason);
    environment.mount_point = environment.mount_options = environment.fs_type;
    environment.free_bytes = Absent<uint64_t>(reason);
    environment.block_devices_reason = reason;
  } else {
    ReadFilesystem(query.path, roots, environment);
  }
  environment.container = Container(roots.proc);
  environment.vm = VirtualMachine(cpu, roots.sys);
  environment.governor = FileText(roots.sys + "/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  environment.transparent_huge_pages =
      FileText(roots.sys + "/kernel/mm/transparent_hugepage/enabled");
  environment.huge_page_bytes = ValueOr(query.huge_page_bytes, "no pool");
  environment.libraries = LibraryVersions();
  const std::string commit = GitCommit();
  environment.git_commit =
      commit.empty() ? Absent<std::string>("not built from git") : Value(commit);
  environment.command_line = CommandLineOfThisProcess();
  environment.seed = query.seed;
  environment.model_fingerprint = ValueOr(query.model_fingerprint, "no model");
  const char* preload = std::getenv("LD_PRELOAD");
  environment.ld_preload =
      preload != nullptr ? Value<std::string>(preload) : Absent<std::string>("not set");
  return environment;
}

Json EnvironmentJson(const Environment& environment) {
  Json out;
  out["cpu"] = environment.cpu;
  out["cpu_features"] = environment.cpu_features;
  Set(out, "cores", environment.cores);
  Set(out, "sockets", environment.sockets);
  out["cpus_online"] = environment.cpus_online;
  out["cpus_usable"] = environment.cpus_usable;
  Set(out, "numa_nodes", environment.numa_nodes);
  Set(out, "memory_bytes", environment.memory_bytes);
  Set(out, "memory_available_bytes", environment.memory_available_bytes);
  out["kernel"] = environment.kernel;
  Set(out, "os", environment.os);
  Set(out, "fs_type", environment.fs_type);
  Set(out, "mount_point", environment.mount_point);
  Set(out, "mount_options", environment.mount_options);
  Set(out, "free_bytes", environment.free_bytes);
  Json disks = Json::array();
  for (const DiskDescription& disk : environment.block_devices) disks.push_back(DiskJson(disk));
  if (environment.block_devices_reason.empty()) {
    out["block_devices"] = std::move(disks);
  } else {
    SetNull(out, "block_devices", environment.block_devices_reason);
  }
  Set(out, "container", environment.container);
  Set(out, "vm", environment.vm);
  Set(out, "governor", environment.governor);
  Set(out, "transparent_huge_pages", environment.transparent_huge_pages);
  Set(out, "huge_page_bytes", environment.huge_page_bytes);
  Json libraries = Json::object();
  for (const auto& [name, version] : environment.libraries) {
    SetTextOrReason(libraries, name, version, "not in this build");
  }
  out["libraries"] = std::move(libraries);
  Set(out, "git_commit", environment.git_commit);
  out["command_line"] = environment.command_line;
  out["seed"] = environment.seed;
  Set(out, "model_fingerprint", environment.model_fingerprint);
  Set(out, "ld_preload", environment.ld_preload);
  return out;
}

}  // namespace kvbed
