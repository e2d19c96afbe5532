// Records in a slab, RocksDB holding where each one is and the manifests.
#pragma once

#include <memory>

#include "backends/direct_support.h"
#include "backends/rocksdb/database.h"
#include "backends/rocksdb_store.h"

namespace kvbed {

Result<std::unique_ptr<BlockStore>> MakeIndexStore(std::unique_ptr<Io> io,
                                                   const RocksDbStoreOptions& options,
                                                   StoreFolder folder, DirectSupport direct,
                                                   std::unique_ptr<Database> database);

}  // namespace kvbed
