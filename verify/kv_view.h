// K and V of a sequence, borrowed: from the pool, or from a copy outside it. What compares, digests
// or measures KV takes this and need not know where the bytes lie.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/bytes.h"
#include "offload/kv_geometry.h"
#include "offload/sequence.h"

namespace kvbed {

// Valid as long as what it was made from, and until that changes.
struct KvView {
  static KvView Of(const Sequence& sequence);

  KvGeometry geometry;
  uint64_t tokens = 0;
  std::vector<Bytes> payloads;  // by block
};

}  // namespace kvbed
