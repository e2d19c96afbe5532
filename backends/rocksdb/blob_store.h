// Records as values in RocksDB's blob files: key = the encoded id, value = the record.
#pragma once

#include <memory>

#include "backends/direct_support.h"
#include "backends/rocksdb/database.h"
#include "backends/rocksdb_store.h"

namespace kvbed {

Result<std::unique_ptr<BlockStore>> MakeBlobStore(std::unique_ptr<Io> io,
                                                  const RocksDbStoreOptions& options,
                                                  StoreFolder folder, DirectSupport direct,
                                                  std::unique_ptr<Database> database);

}  // namespace kvbed
