#include "tools/verify/own_stores.h"

#include <array>
#include <utility>

#include "backends/faulty_io.h"
#include "backends/open_store.h"

namespace kvbed {

std::span<const OwnStore> OwnStores() {
  static constexpr std::array<OwnStore, 6> kStores{{
      {.name = "slab", .kind = StoreKind::kSlab},
      {.name = "files", .kind = StoreKind::kFiles},
      {.name = "rocksdb", .kind = StoreKind::kRocksDb},
      {.name = "rocksdb_wal", .kind = StoreKind::kRocksDb, .wal = WalMode::kOn},
      {.name = "rocksdb_index", .kind = StoreKind::kRocksDb, .layout = RecordLayout::kIndex},
      {.name = "memory", .kind = StoreKind::kMemory},
  }};
  return kStores;
}

StoreSpec SpecOf(const OwnStore& store, const std::string& folder) {
  StoreSpec spec;
  spec.kind = store.kind;
  if (store.kind != StoreKind::kMemory) spec.path = folder;
  spec.wal = store.wal;
  spec.layout = store.layout;
  return spec;
}

StoreSettings SelfTestSettings() {
  StoreSettings settings;
  settings.direct = DirectMode::kOptional;
  return settings;
}

Result<std::unique_ptr<BlockStore>> OpenOver(FaultDevice& device, const StoreSpec& spec,
                                             StoreAccess access) {
  KVBED_ASSIGN_OR_RETURN(std::unique_ptr<Io> io, OpenIo(IoEngine::kAuto));
  return OpenStoreOver(MakeFaultyIo(std::move(io), device), spec,
                       {.access = access, .defaults = SelfTestSettings()});
}

}  // namespace kvbed
