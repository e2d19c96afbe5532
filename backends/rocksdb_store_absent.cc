// In the place of backends/rocksdb/ where the build has no RocksDB.
#include "backends/rocksdb_store.h"

namespace kvbed {

Result<std::unique_ptr<BlockStore>> OpenRocksDbStore(std::unique_ptr<Io>,
                                                     const RocksDbStoreOptions&) {
  return Status::NotSupported(
      "this build has no rocksdb (KVBED_WITH_ROCKSDB=OFF): build with RocksDB 7.8 or later, or use "
      "slab: or files:");
}

}  // namespace kvbed
