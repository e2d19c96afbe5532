#include "backends/open_store.h"

#include <algorithm>
#include <utility>

#include "backends/external_store.h"
#include "backends/file_store.h"
#include "backends/memory_store.h"
#include "backends/rocksdb_store.h"
#include "backends/slab_store.h"
#include "backends/split_command.h"
#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

// The snapshot isn't part of which store it is.
std::string SpecText(StoreSpec spec) {
  spec.snapshot.clear();
  return spec.ToString();
}

// argv[1] of kvbed when it is to host a plug-in.
constexpr std::string_view kPluginHostVerb = "plugin-host";

// The command that serves the store: as it is written, or kvbed itself for a plug-in.
Status NameCommand(const StoreSpec& spec, const std::string& plugin_host,
                   ExternalStoreOptions& external) {
  if (spec.kind == StoreKind::kExec) {
    KVBED_ASSIGN_OR_RETURN(const std::vector<CommandWord> words, SplitCommand(spec.path));
    for (const CommandWord& word : words) external.argv.push_back(word.text);
    external.program = external.argv.at(0);
    return Status::Ok();
  }
  external.program = plugin_host.empty() ? "/proc/self/exe" : plugin_host;
  external.argv = {"kvbed", std::string(kPluginHostVerb), spec.path};
  for (const auto& [key, value] : spec.plugin_options) external.argv.push_back(key + "=" + value);
  return Status::Ok();
}

Result<std::unique_ptr<BlockStore>> OpenExternal(std::unique_ptr<Io> io, const StoreSpec& spec,
                                                 const StoreOpenOptions& options,
                                                 const StoreSettings& settings) {
  ExternalStoreOptions external;
  external.kind = std::string(StoreKindName(spec.kind));
  external.spec = SpecText(spec);
  external.access = options.access;
  external.iodepth = settings.iodepth;
  external.timeout_ms = settings.timeout_ms;
  external.window_bytes =
      RoundUp(std::max(settings.window_bytes, options.record_bytes_hint), kPageBytes);
  external.manifests_directory = settings.manifests;
  KVBED_RETURN_IF_ERROR(NameCommand(spec, options.plugin_host, external));
  return OpenExternalStore(std::move(io), external);
}

}  // namespace

Result<std::unique_ptr<BlockStore>> OpenStore(const StoreSpec& spec,
                                              const StoreOpenOptions& options) {
  KVBED_ASSIGN_OR_RETURN(auto io, OpenIo(EffectiveSettings(spec, options.defaults).ioengine));
  return OpenStoreOver(std::move(io), spec, options);
}

Result<std::unique_ptr<BlockStore>> OpenStoreOver(std::unique_ptr<Io> io, const StoreSpec& spec,
                                                  const StoreOpenOptions& options) {
  const StoreSettings settings = EffectiveSettings(spec, options.defaults);
  KVBED_RETURN_IF_ERROR(CheckSettings(spec.kind, settings));
  switch (spec.kind) {
    case StoreKind::kSlab:
      return OpenSlabStore(std::move(io), {.path = spec.path,
                                           .access = options.access,
                                           .settings = settings,
                                           .record_bytes_hint = options.record_bytes_hint,
                                           .spec = SpecText(spec)});
    case StoreKind::kRocksDb:
      return OpenRocksDbStore(std::move(io), {.path = spec.path,
                                              .access = options.access,
                                              .settings = settings,
                                              .record_bytes_hint = options.record_bytes_hint,
                                              .spec = SpecText(spec)});
    case StoreKind::kFiles:
      return OpenFileStore(std::move(io), {.path = spec.path,
                                           .access = options.access,
                                           .settings = settings,
                                           .spec = SpecText(spec)});
    case StoreKind::kMemory:
      return MakeMemoryStore({.capacity_bytes = settings.capacity_bytes,
                              .iodepth = settings.iodepth,
                              .spec = SpecText(spec)});
    case StoreKind::kPlugin:
    case StoreKind::kExec: return OpenExternal(std::move(io), spec, options, settings);
  }
  return Status::InvalidArgument("the store kind is unknown");
}

}  // namespace kvbed
