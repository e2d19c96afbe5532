// Rows of K and V between dense arrays, as a tensor library wants them, and the pool records that
// are the cache. It doesn't know tensors, nor how K and V are computed.
#pragma once

#include <cstdint>

#include "offload/bytes.h"
#include "offload/kv_geometry.h"
#include "offload/sequence.h"

namespace kvbed {

// Copies `rows`, [kv_head][count][head_dim], to the positions [first, first + count) of one layer.
// The sequence must have room reserved for them.
void WriteKvRows(Sequence& sequence, uint32_t layer, KvPart part, uint64_t first, uint64_t count,
                 Bytes rows);

// Copies the first `tokens` positions of one layer to `k` and `v`, each
// [kv_head][tokens][head_dim], on up to `threads` threads where that is worth it.
void ReadKvRows(Sequence& sequence, uint32_t layer, uint64_t tokens, MutableBytes k, MutableBytes v,
                uint32_t threads);

// Zeroes the positions [first, first + count) of all layers, as unused rows of a record must be.
void ClearKvRows(Sequence& sequence, uint64_t first, uint64_t count);

}  // namespace kvbed
