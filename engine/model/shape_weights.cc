#include "engine/model/shape_weights.h"

#include "offload/checked_count.h"

namespace kvbed {
namespace {

CheckedCount LatentAttentionParameters(const ModelShape& shape, const LatentAttention& latent) {
  const CheckedCount hidden = shape.hidden;
  const CheckedCount heads = shape.heads;
  const CheckedCount kv_rank = latent.kv_lora_rank;
  const CheckedCount query_rows =
      heads * (CheckedCount(latent.qk_nope_head_dim) + latent.qk_rope_head_dim);
  const CheckedCount q_rank = latent.q_lora_rank;
  // With its norm; or straight from the hidden row.
  const CheckedCount query =
      latent.q_lora_rank > 0 ? hidden * q_rank + q_rank + q_rank * query_rows : hidden * query_rows;
  const CheckedCount down = hidden * (kv_rank + latent.qk_rope_head_dim) + kv_rank;
  const CheckedCount up =
      kv_rank * heads * (CheckedCount(latent.qk_nope_head_dim) + latent.v_head_dim);
  const CheckedCount output = heads * latent.v_head_dim * hidden;
  return query + down + up + output;
}

CheckedCount AttentionParameters(const ModelShape& shape) {
  if (shape.latent) return LatentAttentionParameters(shape, *shape.latent);
  const CheckedCount hidden = shape.hidden;
  const CheckedCount query_rows = CheckedCount(shape.heads) * shape.head_dim;
  const CheckedCount kv_rows = CheckedCount(shape.kv_heads) * shape.head_dim;
  CheckedCount sum = hidden * query_rows * 2 + hidden * kv_rows * 2;  // Q and output, K and V
  if (shape.qkv_bias) sum = sum + query_rows + kv_rows * 2;
  if (shape.output_bias) sum = sum + hidden;
  if (shape.qk_norm) sum = sum + CheckedCount(shape.head_dim) * 2;
  return sum;
}

// Gate, up and down projection.
CheckedCount MlpParameters(const ModelShape& shape, uint32_t width) {
  const CheckedCount matrices = CheckedCount(3) * shape.hidden * width;
  return shape.mlp_bias ? matrices + CheckedCount(width) * 2 + shape.hidden : matrices;
}

CheckedCount ExpertsParameters(const ModelShape& shape, const Experts& experts) {
  const CheckedCount expert = MlpParameters(shape, experts.intermediate);
  const CheckedCount router = CheckedCount(shape.hidden) * experts.count;
  const CheckedCount sum =
      expert * (CheckedCount(experts.count) + CheckedCount(experts.shared)) + router;
  return experts.selection_bias ? sum + experts.count : sum;
}

// Of all layers.
CheckedCount MlpsParameters(const ModelShape& shape) {
  const uint32_t dense = shape.experts ? shape.experts->dense_layers : shape.layers;
  const CheckedCount plain = MlpParameters(shape, shape.intermediate) * dense;
  if (!shape.experts) return plain;
  return plain + ExpertsParameters(shape, *shape.experts) * (shape.layers - dense);
}

}  // namespace

std::optional<uint64_t> WeightParameters(const ModelShape& shape) {
  const CheckedCount embedding = CheckedCount(shape.vocab) * shape.hidden;
  const CheckedCount matrices = shape.tie_word_embeddings ? embedding : embedding * 2;
  const CheckedCount norms = (CheckedCount(shape.layers) * 2 + 1) * shape.hidden;
  const CheckedCount attention = AttentionParameters(shape) * shape.layers;
  return (matrices + norms + attention + MlpsParameters(shape)).value();
}

}  // namespace kvbed
