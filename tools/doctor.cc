// kvbed doctor: what this machine and a directory allow, each with its remedy.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backends/direct_io.h"
#include "backends/disk_space.h"
#include "backends/io.h"
#include "engine/engine.h"
#include "offload/aligned_buffer.h"
#include "offload/clock.h"
#include "tools/bench/fio.h"
#include "tools/block_device.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/device_counters.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/system_text.h"
#include "tools/version.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

struct DoctorOptions {
  std::string directory;
  OutputOptions output;
};

enum class Health { kOk, kWarn, kMissing };

std::string_view HealthName(Health health) {
  switch (health) {
    case Health::kOk: return "ok";
    case Health::kWarn: return "warn";
    case Health::kMissing: return "missing";
  }
  return "unknown";
}

struct Diagnosis {
  std::string what;
  Health health = Health::kOk;
  std::string found;
  std::string remedy;  // empty when there is nothing to do
};

Diagnosis DiagnoseIoUring() {
  auto io = OpenIo(IoEngine::kIoUring);
  if (!io.ok()) {
    return {"io_uring", Health::kMissing, io.status().message(),
            "kvbed uses pread/pwrite instead (--ioengine psync)"};
  }
  IoQueueOptions options;
  auto memory = AlignedBuffer::Allocate(kHugePageBytes);
  if (memory.ok()) options.memory = memory->bytes();
  auto queue = (*io)->OpenQueue(options);
  if (!queue.ok()) return {"io_uring", Health::kMissing, queue.status().message(), ""};
  const IoQueueInfo info = (*queue)->info();
  std::string found = "works";
  for (const std::string& flag : info.ring_flags) found += ", " + flag;
  if (info.registered_buffers) return {"io_uring", Health::kOk, found + ", registered buffers", ""};
  return {"io_uring", Health::kWarn, found + ", buffers not registered",
          info.registered_buffers_reason};
}

Diagnosis DiagnoseDirect(const std::string& directory) {
  auto io = OpenIo(IoEngine::kAuto);
  if (!io.ok()) return {"direct I/O", Health::kMissing, io.status().message(), ""};
  const auto probe = ProbeDirect(**io, directory);
  if (!probe.ok()) {
    return {"direct I/O", Health::kMissing, probe.status().message(),
            "use a directory on ext4, xfs or another filesystem with O_DIRECT, or --direct off, "
            "which measures the page cache"};
  }
  if (IsMemoryFilesystem(probe->filesystem)) {
    return {
        "direct I/O", Health::kWarn,
        fmt::format("accepted, but {} is memory: there is no disk to measure", probe->filesystem),
        "use a directory on a disk"};
  }
  return {"direct I/O", Health::kOk,
          fmt::format("works on {}, alignment {} bytes", probe->filesystem, probe->alignment_bytes),
          ""};
}

Diagnosis DiagnoseMemlock() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const auto show = [](rlim_t value) {
    return value == RLIM_INFINITY ? std::string("unlimited") : Thousands(value) + " bytes";
  };
  const std::string found =
      fmt::format("{} soft, {} hard", show(limit.rlim_cur), show(limit.rlim_max));
  if (::geteuid() == 0)
    return {"memlock limit", Health::kOk, found + "; root is not bound by it", ""};
  constexpr rlim_t kWanted = rlim_t{1} << 30;
  if (limit.rlim_cur >= kWanted) return {"memlock limit", Health::kOk, found, ""};
  return {"memlock limit", Health::kWarn, found,
          "registered buffers are limited by it: raise it (ulimit -l, limits.conf) to the size of "
          "the pool, e.g. 1 GiB for 46k tokens of SmolLM2; without it I/O works unregistered"};
}

Diagnosis DiagnoseHugePages(const Environment& environment) {
  const std::string mode =
      environment.transparent_huge_pages.value.value_or(environment.transparent_huge_pages.reason);
  if (mode == "never") {
    return {"huge pages", Health::kWarn, "transparent huge pages: " + mode,
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: direct reads can be twice "
            "as fast"};
  }
  auto memory = AlignedBuffer::Allocate(4 * kHugePageBytes);
  if (!memory.ok()) return {"huge pages", Health::kWarn, memory.status().message(), ""};
  for (uint64_t at = 0; at < memory->size_bytes(); at += kPageBytes) {
    memory->bytes()[at] = std::byte{1};
  }
  const uint64_t backed = memory->HugePageBackedBytes();
  const uint64_t hugetlb =
      MemInfoBytes(ReadSystemFile("/proc/meminfo").value_or(""), "HugePages_Free").value_or(0);
  const std::string found =
      fmt::format("transparent huge pages: {}; {} of {} bytes obtained; {} free hugetlb pages",
                  mode, Thousands(backed), Thousands(memory->size_bytes()), hugetlb);
  if (backed == memory->size_bytes()) return {"huge pages", Health::kOk, found, ""};
  return {"huge pages", Health::kWarn, found, "memory is fragmented or scarce: free some"};
}

Diagnosis DiagnoseFio() {
  const auto version = FioVersion();
  if (version.ok()) return {"fio", Health::kOk, *version, ""};
  return {"fio", Health::kMissing, version.status().message(),
          "apt-get install fio: without it `bench` has no ceiling to compare with"};
}

Diagnosis DiagnoseSpace(const std::string& directory) {
  const auto bytes = AvailableBytes(directory);
  if (!bytes.ok()) return {"free space", Health::kMissing, bytes.status().message(), ""};
  const std::string found = fmt::format("{} bytes", Thousands(*bytes));
  if (*bytes >= uint64_t{4} << 30) return {"free space", Health::kOk, found, ""};
  return {"free space", Health::kWarn, found, "a benchmark of 1 GiB wants about 4 GiB"};
}

// "vda", "nvme0n1 Samsung SSD 990 PRO 2TB".
std::string DiskNames(const Environment& environment) {
  std::vector<std::string> names;
  for (const DiskDescription& disk : environment.block_devices) {
    names.push_back(disk.name + (disk.model.value ? " " + *disk.model.value : ""));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view WhatIsCounted(CounterSource source) {
  switch (source) {
    case CounterSource::kSectors: return "sectors of block device";
    case CounterSource::kMountStats: return "mountstats, the bytes from and to the NFS server, of";
    case CounterSource::kLustre: return "lustre, the bytes from and to the servers, of";
    case CounterSource::kUnavailable: break;
  }
  return "unavailable:";
}

Diagnosis DiagnoseProof(const std::string& directory, const Environment& environment) {
  const DeviceCounters counters = DeviceCounters::For(directory, {});
  if (counters.source() == CounterSource::kUnavailable) {
    return {"device proof", Health::kWarn, "unavailable: " + counters.reason(),
            "`bench` can't prove that a device moved the bytes: its rows aren't publishable"};
  }
  std::string found = fmt::format("{} {}", WhatIsCounted(counters.source()),
                                  counters.source() == CounterSource::kSectors
                                      ? DiskNames(environment)
                                      : fmt::format("{}", fmt::join(counters.devices(), ", ")));
  if (!counters.redundancy().empty()) found += fmt::format(" ({})", counters.redundancy());
  if (!counters.memory().empty()) {
    return {"device proof", Health::kWarn,
            fmt::format("{}; {} is memory and not a disk", found, counters.memory()),
            "use a directory on a disk"};
  }
  if (counters.weakness().empty()) return {"device proof", Health::kOk, found, ""};
  return {"device proof", Health::kWarn, found, counters.weakness()};
}

// The BLAS that the process has loaded, where torch leaves the choice to the system's alternatives.
std::string LoadedBlas() {
  const std::string maps = ReadSystemFile("/proc/self/maps").value_or("");
  for (const char* name : {"openblas-pthread", "libopenblas", "libmkl", "libblis", "libblas"}) {
    if (maps.find(name) != std::string::npos) return name;
  }
  return "";
}

bool HasKernelSet(std::string_view name) {
  return std::ranges::any_of(KernelSets(), [&](const std::string& set) { return set == name; });
}

Diagnosis DiagnoseNativeKernels() {
  const std::vector<std::string> sets = NativeInstructionSets(DType::kBf16);
  if (!sets.empty()) {
    return {"native kernels", Health::kOk,
            fmt::format("{}; a cache computed again is the same bits", fmt::join(sets, ", ")), ""};
  }
  return {"native kernels", Health::kWarn, "this CPU has neither AVX2 with FMA, AVX-512 nor NEON",
          !HasKernelSet("torch")
              ? "no model can run: configure with KVBED_WITH_TORCH=ON for libtorch's kernels"
              : "models run on libtorch's kernels, which round a cache computed again otherwise"};
}

Diagnosis DiagnoseLibtorch() {
  const auto described = DescribeLibtorch();
  if (!described.ok()) {
    return {"libtorch", Health::kWarn, Printable(described.status().message()), ""};
  }
  const std::string& kernels = *described;
  if (kernels.empty()) {
    return {"libtorch", NativeInstructionSets(DType::kBf16).empty() ? Health::kWarn : Health::kOk,
            "not in this build: no --kernels torch to compare the native ones with", ""};
  }
  const std::string loaded = LoadedBlas();
  const std::string found = loaded.empty() ? kernels : kernels + ", " + loaded + " loaded";
  // Measured with torch 2.6, SmolLM2-135M in bf16, 2 threads: 292 ms a token, 92 with OpenMP's.
  if (loaded == "openblas-pthread") {
    return {"libtorch", Health::kWarn, found,
            "its threads and libtorch's hinder each other, and decoding takes three times as long: "
            "apt-get install libopenblas0-openmp and remove libopenblas0-pthread"};
  }
  if (loaded != "libblas") return {"libtorch", Health::kOk, found, ""};
  return {"libtorch", Health::kWarn, found,
          "the reference BLAS is about 80 times slower: apt-get install libopenblas0-openmp"};
}

Status CheckDirectory(const std::string& directory) {
  if (directory.empty()) return Status::InvalidArgument("DIR is empty: name a directory");
  std::error_code error;
  if (std::filesystem::exists(directory, error) &&
      !std::filesystem::is_directory(directory, error)) {
    return Status::IoError(
        fmt::format("{} is no directory: name one that a store could be in", directory));
  }
  if (::access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return StatusFromErrno(errno, fmt::format("use directory {}", directory));
  }
  // Some filesystems let everybody write and have no files to be made.
  std::string probe = directory + "/kvbed-doctor-XXXXXX";
  if (::mkdtemp(probe.data()) == nullptr) {
    return StatusFromErrno(errno, fmt::format("make a folder in {}", directory));
  }
  ::rmdir(probe.c_str());
  return Status::Ok();
}

Result<int> Run(const DoctorOptions& options) {
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kRefused, {}));
  if (Status usable = CheckDirectory(options.directory); !usable.ok()) return usable;
  EnvironmentQuery query;
  query.path = options.directory;
  const Environment environment = ReadEnvironment(query);
  const std::vector<Diagnosis> diagnoses{
      {"kernel", Health::kOk, KernelVersion(), ""},
      {"processor", Health::kOk,
       fmt::format("{}, {} usable CPUs, {}", environment.cpu, environment.cpus_usable,
                   fmt::join(environment.cpu_features, " ")),
       ""},
      DiagnoseIoUring(),
      DiagnoseDirect(options.directory),
      DiagnoseProof(options.directory, environment),
      DiagnoseSpace(options.directory),
      DiagnoseMemlock(),
      DiagnoseHugePages(environment),
      DiagnoseFio(),
      DiagnoseNativeKernels(),
      DiagnoseLibtorch(),
  };
  std::string text;
  Json json = MakeResult({"kvbed-doctor/1", CommandLineOfThisProcess(), 0, UnixNs()});
  json["env"] = EnvironmentJson(environment);
  json["checks"] = Json::array();
  for (const Diagnosis& one : diagnoses) {
    text += fmt::format("{:<8} {:<16} {}\n", HealthName(one.health), one.what, one.found);
    if (!one.remedy.empty()) text += fmt::format("{:<25} -> {}\n", "", one.remedy);
    json["checks"].push_back({{"what", one.what},
                              {"health", std::string(HealthName(one.health))},
                              {"found", one.found},
                              {"remedy", one.remedy}});
  }
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, text, json));
  return kExitOk;
}

}  // namespace

void AddDoctorCommand(CommandLine& line) {
  DoctorOptions& options = line.Own<DoctorOptions>();
  OptionSet set = line.AddCommand("doctor", "what this machine and a directory allow");
  set.Group("Doctor");
  set.Required(set.Text("DIR", "DIR", "the directory that a store would be in", options.directory));
  AddOutputOptions(set, options.output);
  set.Footer(
      "Exit codes: 0 also with warnings; 4 when DIR can't be used.\n\n"
      "Example:\n  kvbed doctor /data");
  line.SetFunction("doctor", [&options] { return Run(options); });
}

}  // namespace kvbed
