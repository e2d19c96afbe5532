// How many bytes of KV a shape keeps for a context, whole and on one rank of tensor parallelism.
// It doesn't know records, their headers or their padding: those are a store's (kv_geometry.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/model/model_shape.h"
#include "offload/kv_geometry.h"
#include "offload/status.h"

namespace kvbed {

// How the ranks of tensor parallelism share the KV heads.
struct KvSplit {
  uint32_t ranks = 1;
  uint32_t rank_kv_heads = 0;  // that one rank holds; 1, the latent row, with latent attention
  uint32_t replicas = 1;       // ranks that hold the same head
  bool operator==(const KvSplit&) const = default;
};

// Invalid argument when `ranks` neither divides the KV heads nor is a multiple of them (then each
// head is held by several ranks), or doesn't divide the query heads. With latent attention all
// ranks hold the same rows.
Result<KvSplit> SplitKv(const ModelShape& shape, uint32_t ranks);

// The bytes of one more token on one rank, while no window is full.
std::optional<uint64_t> RankKvBytesPerToken(const ModelShape& shape, const KvSplit& split,
                                            DType dtype);

// The bytes of `tokens` tokens of one sequence on one rank: layers with a sliding window keep no
// more than it holds. Nullopt at 2^64 and above.
std::optional<uint64_t> RankKvBytes(const ModelShape& shape, const KvSplit& split, DType dtype,
                                    uint64_t tokens);

// "2 x 32 layers x 8 KV heads x 128 dims x 2 bytes", of the whole model.
std::string KvFormula(const ModelShape& shape, DType dtype);

}  // namespace kvbed
