#include "engine/model/shape_kv.h"

#include <fmt/format.h>

#include <algorithm>

#include "offload/checked_count.h"

namespace kvbed {
namespace {

// Bytes of one token in one layer on one rank.
CheckedCount LayerTokenBytes(const ModelShape& shape, const KvSplit& split, DType dtype) {
  if (shape.latent) {
    return (CheckedCount(shape.latent->kv_lora_rank) + shape.latent->qk_rope_head_dim) *
           DTypeBytes(dtype);
  }
  return CheckedCount(2) * split.rank_kv_heads * shape.head_dim * DTypeBytes(dtype);
}

Status RefuseRanks(const ModelShape& shape, uint32_t ranks, std::string_view what, uint32_t count) {
  return Status::InvalidArgument(
      fmt::format("{} ranks can't share the {} {} of {}: take a divisor of them", ranks, count,
                  what, shape.name));
}

}  // namespace

Result<KvSplit> SplitKv(const ModelShape& shape, uint32_t ranks) {
  if (ranks == 0 || shape.heads % ranks != 0)
    return RefuseRanks(shape, ranks, "query heads", shape.heads);
  if (shape.latent) return KvSplit{.ranks = ranks, .rank_kv_heads = 1, .replicas = ranks};
  if (shape.kv_heads % ranks == 0)
    return KvSplit{.ranks = ranks, .rank_kv_heads = shape.kv_heads / ranks, .replicas = 1};
  if (ranks % shape.kv_heads == 0)
    return KvSplit{.ranks = ranks, .rank_kv_heads = 1, .replicas = ranks / shape.kv_heads};
  return RefuseRanks(shape, ranks, "KV heads", shape.kv_heads);
}

std::optional<uint64_t> RankKvBytesPerToken(const ModelShape& shape, const KvSplit& split,
                                            DType dtype) {
  return (LayerTokenBytes(shape, split, dtype) * shape.layers).value();
}

std::optional<uint64_t> RankKvBytes(const ModelShape& shape, const KvSplit& split, DType dtype,
                                    uint64_t tokens) {
  const SlidingWindow window = shape.window.value_or(SlidingWindow{});
  const CheckedCount rows = CheckedCount(tokens) * (shape.layers - window.layers) +
                            CheckedCount(std::min<uint64_t>(tokens, window.tokens)) * window.layers;
  return (LayerTokenBytes(shape, split, dtype) * rows).value();
}

std::string KvFormula(const ModelShape& shape, DType dtype) {
  if (shape.latent) {
    return fmt::format("{} layers x ({} + {}) latent and rotary dims x {} {}", shape.layers,
                       shape.latent->kv_lora_rank, shape.latent->qk_rope_head_dim,
                       DTypeBytes(dtype), DTypeBytes(dtype) == 1 ? "byte" : "bytes");
  }
  return fmt::format("2 x {} layers x {} KV {} x {} dims x {} {}", shape.layers, shape.kv_heads,
                     shape.kv_heads == 1 ? "head" : "heads", shape.head_dim, DTypeBytes(dtype),
                     DTypeBytes(dtype) == 1 ? "byte" : "bytes");
}

}  // namespace kvbed
