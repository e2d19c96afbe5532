// The RocksDB stores: records as values in its blob files (layout=blob), or in a slab with RocksDB
// holding where each one is (layout=index). DESIGN: RocksDB's files go through the seam; manifests
// are keys in it. FORMAT.md has the folder and the keys.
#pragma once

#include <memory>
#include <string>

#include "backends/io.h"
#include "backends/store_folder.h"
#include "backends/store_spec.h"
#include "offload/block_store.h"

namespace kvbed {

struct RocksDbStoreOptions {
  std::string path;
  StoreAccess access = StoreAccess::kRead;
  StoreSettings settings;
  uint64_t record_bytes_hint = 0;  // layout=index: a writer makes this size's slab at once
  std::string spec;                // for info()
};

// As OpenStore says. Not supported in a build without RocksDB. A manifest that can't be read
// doesn't keep the store from opening: it is listed with its error, and until it is removed no
// record's key is removed, because those that it names can't be known.
Result<std::unique_ptr<BlockStore>> OpenRocksDbStore(std::unique_ptr<Io> io,
                                                     const RocksDbStoreOptions& options);

}  // namespace kvbed
