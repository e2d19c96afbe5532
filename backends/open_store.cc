#include "backends/open_store.h"

#include <utility>

#include "backends/file_store.h"
#include "backends/memory_store.h"
#include "backends/rocksdb_store.h"
#include "backends/slab_store.h"

namespace kvbed {
namespace {

// The snapshot isn't part of which store it is.
std::string SpecText(StoreSpec spec) {
  spec.snapshot.clear();
  return spec.ToString();
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
  }
  return Status::InvalidArgument("the store kind is unknown");
}

}  // namespace kvbed
