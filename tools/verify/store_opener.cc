#include "tools/verify/store_opener.h"

#include <utility>

#include "backends/external_store.h"

namespace kvbed {

Result<std::unique_ptr<BlockStore>> OpenAsItIs(std::unique_ptr<Io> io, const StoreSpec& spec,
                                               const StoreOpenOptions& options) {
  if (io == nullptr) return OpenStore(spec, options);
  return OpenStoreOver(std::move(io), spec, options);
}

bool KeepsFiles(StoreKind kind) { return kind != StoreKind::kMemory; }

bool IsOverTheSeam(StoreKind kind) {
  return kind == StoreKind::kSlab || kind == StoreKind::kFiles || kind == StoreKind::kRocksDb;
}

bool HasCapacityOption(StoreKind kind) { return IsOverTheSeam(kind) || kind == StoreKind::kMemory; }

StoreSpec SpecWithSettings(StoreSpec spec, const StoreSettings& settings) {
  const StoreSettings usual;
  const auto say = [](auto& option, const auto& value, const auto& otherwise) {
    if (!option && value != otherwise) option = value;
  };
  say(spec.iodepth, settings.iodepth, usual.iodepth);
  say(spec.capacity_bytes, settings.capacity_bytes, usual.capacity_bytes);
  if (spec.kind == StoreKind::kMemory) return spec;  // it has no I/O to be set
  say(spec.ioengine, settings.ioengine, usual.ioengine);
  say(spec.direct, settings.direct, usual.direct);
  say(spec.sync, settings.sync, usual.sync);
  say(spec.timeout_ms, settings.timeout_ms, usual.timeout_ms);
  say(spec.window_bytes, settings.window_bytes, usual.window_bytes);
  say(spec.manifests, settings.manifests, usual.manifests);
  return spec;
}

bool CanRemoveRecords(const BlockStore& store) {
  const auto external = StateOfExternalStore(store);
  return !external || external->capabilities.remove;
}

}  // namespace kvbed
