// The slab store: records in equal slots of preallocated files, read and written with direct I/O.
// DESIGN: an index in memory, built from the manifests; a slot is reused only after the change
// that drops it is durable and nobody reads it. FORMAT.md has the files.
#pragma once

#include <memory>
#include <string>

#include "backends/io.h"
#include "backends/store_folder.h"
#include "backends/store_spec.h"
#include "offload/block_store.h"

namespace kvbed {

struct SlabStoreOptions {
  std::string path;
  StoreAccess access = StoreAccess::kRead;
  StoreSettings settings;
  uint64_t record_bytes_hint = 0;  // a writer makes this size's file at once; 0: at the first put
  std::string spec;                // for info()
};

// As OpenStore says. A manifest that can't be read doesn't keep the store from opening: it is
// listed with its error, and until it is removed a writer puts records into new extents only,
// because the slots that it names can't be known.
Result<std::unique_ptr<BlockStore>> OpenSlabStore(std::unique_ptr<Io> io,
                                                  const SlabStoreOptions& options);

}  // namespace kvbed
