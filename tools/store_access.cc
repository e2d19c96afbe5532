#include "tools/store_access.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "backends/external_store.h"
#include "tools/exit_code.h"
#include "tools/wording.h"

namespace kvbed {

Result<NamedStore> NameStore(const StoreOptions& options) {
  NamedStore store;
  KVBED_ASSIGN_OR_RETURN(store.spec, ParseStoreSpec(options.spec));
  StoreSettings defaults;
  defaults.iodepth = options.iodepth;
  KVBED_ASSIGN_OR_RETURN(defaults.ioengine, ParseIoEngine(options.ioengine));
  KVBED_ASSIGN_OR_RETURN(defaults.direct, ParseDirectMode(options.direct));
  KVBED_ASSIGN_OR_RETURN(defaults.sync, ParseSyncMode(options.sync));
  defaults.capacity_bytes = options.capacity.value_or(0);
  store.settings = EffectiveSettings(store.spec, defaults);
  return store;
}

Result<std::unique_ptr<BlockStore>> OpenNamed(const NamedStore& store, StoreAccess access,
                                              uint64_t record_bytes) {
  StoreOpenOptions options;
  options.access = access;
  options.defaults = store.settings;
  options.record_bytes_hint = record_bytes;
  return OpenStore(store.spec, options);
}

Result<TemporaryFolder> TemporaryFolder::Create() {
  auto usual = CreateIn("/var/tmp");
  if (usual.ok()) return usual;
  auto here = CreateIn(".");
  if (here.ok()) return here;
  return here.status().WithContext("no room for temporary files in /var/tmp or here");
}

Result<TemporaryFolder> TemporaryFolder::CreateIn(const std::string& parent) {
  std::string path = parent + "/kvbed-XXXXXX";
  if (::mkdtemp(path.data()) != nullptr) return TemporaryFolder(std::move(path));
  return StatusFromErrno(errno, fmt::format("make a temporary folder in {}", parent));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Status CheckHoldsSnapshots(const BlockStore& store) {
  const auto external = StateOfExternalStore(store);
  if (!external) return Status::Ok();
  const std::string spec = store.info().spec;
  if (external->lossy) {
    return Status::InvalidArgument(
        fmt::format("{} is lossy, by its own word: what comes back can't be the bytes that were "
                    "offloaded; `kvbed verify` measures its drift",
                    spec));
  }
  if (external->manifests != ExternalStoreState::Manifests::kMemory) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} keeps no manifests, and a snapshot is gone without its manifest: name a "
                  "folder for them with manifests=DIR in the spec",
                  spec));
}

Status CheckIsOurs(const StoreSpec& spec, const std::string& command) {
  if (!IsExternal(spec.kind)) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} measures kvbed's own stores, of which it knows the files: {} is verified by "
                  "`kvbed verify` and used by run, snapshot and resume",
                  command, spec.ToString()));
}

Status CheckNameIsFree(BlockStore& store, const std::string& name, bool replace) {
  KVBED_RETURN_IF_ERROR(ValidateSnapshotName(name));
  if (replace) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(const std::vector<ManifestSummary> snapshots, store.ListManifests());
  for (const ManifestSummary& snapshot : snapshots) {
    if (snapshot.name != name) continue;
    return Status::InvalidArgument(
        fmt::format("{} has a snapshot {} already: choose another name, or --replace it",
                    store.info().spec, name));
  }
  return Status::Ok();
}

void WarnOfUnreadable(BlockStore& store, std::vector<std::string>& warnings) {
  const auto snapshots = store.ListManifests();
  if (!snapshots.ok()) return;
  for (const ManifestSummary& one : *snapshots) {
    if (one.status.ok()) continue;
    warnings.push_back(fmt::format(
        "snapshot {} can't be read ({}): while it is there, no place in the store is used again",
        one.name, one.status.message()));
  }
}

Status CheckRoom(const BlockStore& store, uint64_t records, uint64_t record_bytes) {
  const StoreInfo info = store.info();
  // What has no files that we know has no limit either but one that it was given.
  const bool has_files =
      info.kind != StoreKindName(StoreKind::kMemory) && !StateOfExternalStore(store).has_value();
  const bool limited = has_files || info.capacity_bytes != 0;
  if (!limited || records <= info.free_bytes / record_bytes) return Status::Ok();
  const bool reserve = info.spec.find("capacity=") == std::string::npos;
  return Status::OutOfSpace(fmt::format(
      "{} of {} bytes are to be written, and {} has room for {} bytes{}: remove snapshots, take "
      "fewer tokens or another place",
      Count(records, "record", "records"), Thousands(record_bytes), info.spec,
      Thousands(info.free_bytes),
      reserve ? " (5 % of its filesystem, at most 1 GiB, are kept free; capacity= overrides that)"
              : ""));
}

Result<Manifest> ReadSnapshot(BlockStore& store, const std::string& name) {
  auto manifest = store.ReadManifest(name);
  if (manifest.ok() || manifest.status().code() != StatusCode::kNotFound) return manifest;
  return Status::NotFound(
      fmt::format("{} has no snapshot {}; {}", store.info().spec, name, SnapshotNames(store)));
}

int ExitCodeForSnapshot(const Status& status) {
  return status.code() == StatusCode::kCorruption ? kExitFailedCheck : ExitCodeFor(status);
}

std::string SnapshotNames(BlockStore& store) {
  const auto snapshots = store.ListManifests();
  if (!snapshots.ok()) return snapshots.status().message();
  if (snapshots->empty()) return "it has no snapshot";
  std::string text = "its snapshots are:";
  for (const ManifestSummary& one : *snapshots) text += " " + one.name;
  return text;
}

std::string PathOfSpec(const std::string& spec) {
  const auto parsed = ParseStoreSpec(spec);
  return parsed.ok() && !IsExternal(parsed->kind) ? parsed->path : std::string();
}

std::string DescribeIo(const StoreInfo& info) {
  if (info.ioengine == "none" && info.kind == StoreKindName(StoreKind::kMemory)) {
    return "copies in memory, no file";
  }
  if (info.ioengine == "none") {
    return fmt::format("the store's own; at most {} records in a call", info.iodepth_requested);
  }
  if (info.ioengine_reason.starts_with("fs=posix")) {
    return fmt::format("RocksDB's own calls, buffered on {}", info.fs_type);
  }
  std::string text = fmt::format("{}, depth {}", info.ioengine, info.iodepth_requested);
  if (info.iodepth_achieved > 0) text += fmt::format(" ({} reached)", info.iodepth_achieved);
  text += fmt::format(", {} on {}", info.direct ? "O_DIRECT" : "buffered", info.fs_type);
  if (info.registered_buffers) text += ", registered buffers";
  if (info.registered_files) text += ", registered files";
  for (const std::string& flag : info.ring_flags) text += ", " + flag;
  return text;
}

}  // namespace kvbed
