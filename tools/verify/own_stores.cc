#include "tools/verify/own_stores.h"

#include <array>

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

}  // namespace kvbed
