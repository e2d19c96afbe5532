#include "tools/verify/small_stores.h"

#include <fmt/format.h>

#include <utility>

#include "backends/io.h"
#include "backends/open_store.h"
#include "tools/verify/snapshot_change.h"
#include "tools/verify/store_opener.h"

namespace kvbed {
namespace {

// RocksDB's files hold more than records.
constexpr uint64_t kRocksDbCapacity = 8 << 20;

}  // namespace

StoreSpec SmallStore::SpecIn(const std::string& folder, bool with_capacity) const {
  const bool files = KeepsFiles(kind);
  std::string text = fmt::format("{}:{}", StoreKindName(kind), files ? "x" : "");
  if (!options.empty()) text += "?" + options;
  StoreSpec spec = ParseStoreSpec(text).value();
  if (files) spec.path = folder + "/" + name;
  // The work folder may be on a filesystem without direct I/O.
  if (files) spec.direct = DirectMode::kOptional;
  if (with_capacity) spec.capacity_bytes = capacity_bytes;
  return spec;
}

std::vector<SmallStore> SmallFileStores() {
  constexpr uint64_t kSlotsBytes = kCampaignSlots * kCampaignRecordBytes;
  return {
      {"slab_io_uring", StoreKind::kSlab, "ioengine=io_uring", kSlotsBytes, true, 120},
      {"slab_psync", StoreKind::kSlab, "ioengine=psync", kSlotsBytes, true, 120},
      {"files_io_uring", StoreKind::kFiles, "ioengine=io_uring", kSlotsBytes, true, 300},
      {"files_psync", StoreKind::kFiles, "ioengine=psync", kSlotsBytes, true, 300},
      {"rocksdb", StoreKind::kRocksDb, "", kRocksDbCapacity, false, 900},
      {"rocksdb_wal", StoreKind::kRocksDb, "wal=on", kRocksDbCapacity, false, 900},
      {"rocksdb_index", StoreKind::kRocksDb, "layout=index", kSlotsBytes, true, 700},
  };
}

Status IsStoreHere(const StoreSpec& spec) {
  const auto io = OpenIo(EffectiveSettings(spec, {}).ioengine);
  if (!io.ok()) return io.status();
  StoreSpec nowhere = spec;
  nowhere.path = "/dev/null/absent";
  const auto opened = OpenStore(nowhere, {.access = StoreAccess::kRead, .defaults = {}});
  const bool absent = !opened.ok() && opened.status().code() == StatusCode::kNotSupported;
  return absent ? opened.status() : Status::Ok();
}

}  // namespace kvbed
