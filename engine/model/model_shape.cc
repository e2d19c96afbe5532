#include "engine/model/model_shape.h"

#include <fmt/format.h>

namespace kvbed {
namespace {

constexpr uint32_t kShapeLayersMax = 1u << 12;
constexpr uint32_t kShapeHeadsMax = 1u << 16;
constexpr uint32_t kShapeWidthMax = 1u << 24;

Status CheckShapeCount(std::string_view name, uint32_t value, uint32_t least, uint32_t most) {
  if (value >= least && value <= most) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} is {}, must be {} to {}", name, value, least, most));
}

Status CheckHeads(const ModelShape& shape) {
  KVBED_RETURN_IF_ERROR(CheckShapeCount("num_attention_heads", shape.heads, 1, kShapeHeadsMax));
  if (shape.latent) return Status::Ok();
  KVBED_RETURN_IF_ERROR(CheckShapeCount("num_key_value_heads", shape.kv_heads, 1, kShapeHeadsMax));
  KVBED_RETURN_IF_ERROR(CheckShapeCount("head_dim", shape.head_dim, 1, 1u << 15));
  if (shape.heads % shape.kv_heads == 0) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("num_attention_heads {} is no multiple of num_key_value_heads {}", shape.heads,
                  shape.kv_heads));
}

Status CheckLatent(const LatentAttention& latent) {
  KVBED_RETURN_IF_ERROR(CheckShapeCount("q_lora_rank", latent.q_lora_rank, 0, kShapeWidthMax));
  KVBED_RETURN_IF_ERROR(CheckShapeCount("kv_lora_rank", latent.kv_lora_rank, 1, kShapeWidthMax));
  KVBED_RETURN_IF_ERROR(CheckShapeCount("qk_nope_head_dim", latent.qk_nope_head_dim, 1, 1u << 15));
  KVBED_RETURN_IF_ERROR(CheckShapeCount("qk_rope_head_dim", latent.qk_rope_head_dim, 1, 1u << 15));
  return CheckShapeCount("v_head_dim", latent.v_head_dim, 1, 1u << 15);
}

Status CheckExperts(const Experts& experts, uint32_t layers) {
  KVBED_RETURN_IF_ERROR(CheckShapeCount("number of experts", experts.count, 1, 1u << 16));
  KVBED_RETURN_IF_ERROR(
      CheckShapeCount("moe_intermediate_size", experts.intermediate, 1, kShapeWidthMax));
  KVBED_RETURN_IF_ERROR(CheckShapeCount("n_shared_experts", experts.shared, 0, 1u << 16));
  return CheckShapeCount("first_k_dense_replace", experts.dense_layers, 0, layers);
}

}  // namespace

std::string_view AttentionKindName(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kMha: return "MHA";
    case AttentionKind::kGqa: return "GQA";
    case AttentionKind::kMqa: return "MQA";
    case AttentionKind::kMla: return "MLA";
  }
  return "unknown";
}

AttentionKind AttentionKindOf(const ModelShape& shape) {
  if (shape.latent) return AttentionKind::kMla;
  if (shape.kv_heads == shape.heads) return AttentionKind::kMha;
  return shape.kv_heads == 1 ? AttentionKind::kMqa : AttentionKind::kGqa;
}

Status ValidateModelShape(const ModelShape& shape) {
  KVBED_RETURN_IF_ERROR(CheckShapeCount("hidden_size", shape.hidden, 1, kShapeWidthMax));
  KVBED_RETURN_IF_ERROR(CheckShapeCount("num_hidden_layers", shape.layers, 1, kShapeLayersMax));
  KVBED_RETURN_IF_ERROR(
      CheckShapeCount("intermediate_size", shape.intermediate, 1, kShapeWidthMax));
  KVBED_RETURN_IF_ERROR(CheckShapeCount("vocab_size", shape.vocab, 1, kShapeWidthMax));
  KVBED_RETURN_IF_ERROR(CheckHeads(shape));
  if (shape.window) {
    KVBED_RETURN_IF_ERROR(CheckShapeCount("sliding_window", shape.window->tokens, 1, UINT32_MAX));
    KVBED_RETURN_IF_ERROR(
        CheckShapeCount("layers with the sliding window", shape.window->layers, 1, shape.layers));
  }
  if (shape.latent) KVBED_RETURN_IF_ERROR(CheckLatent(*shape.latent));
  if (shape.experts) KVBED_RETURN_IF_ERROR(CheckExperts(*shape.experts, shape.layers));
  return Status::Ok();
}

}  // namespace kvbed
