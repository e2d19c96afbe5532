// The memory store: a map of copied records. Its semantics are the reference that every other store
// is tested against; nothing survives it.
#pragma once

#include <memory>
#include <string>

#include "offload/block_store.h"

namespace kvbed {

struct MemoryStoreOptions {
  uint64_t capacity_bytes = 0;  // 0: not limited
  uint32_t iodepth = 16;        // for info(): every request is done when Submit returns
  std::string spec = "memory:";
};

std::unique_ptr<BlockStore> MakeMemoryStore(const MemoryStoreOptions& options);

}  // namespace kvbed
