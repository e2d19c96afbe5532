// The sizes of a decoder that decide how many bytes its KV cache and its weights take.
// It doesn't know rotary embeddings, values of weights or files: a shape can be counted, not run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "offload/status.h"

namespace kvbed {

// Layers that attend to the last `tokens` tokens only, so that no more than those are kept.
struct SlidingWindow {
  uint32_t tokens = 0;
  uint32_t layers = 0;  // how many of the model's layers; the others keep every token
  bool operator==(const SlidingWindow&) const = default;
};

// Mixture of experts in the place of the MLP (Mixtral, Qwen3-MoE, DeepSeekMoE).
struct Experts {
  uint32_t count = 0;
  uint32_t intermediate = 0;    // width of one expert
  uint32_t shared = 0;          // experts of the same width that every token passes
  uint32_t dense_layers = 0;    // first layers, which have a plain MLP
  bool selection_bias = false;  // one number for each expert (DeepSeek-V3)
  bool operator==(const Experts&) const = default;
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): a token is kept as one
// compressed row and one rotary key, both shared by all heads.
struct LatentAttention {
  uint32_t q_lora_rank = 0;  // 0: queries aren't compressed
  uint32_t kv_lora_rank = 0;
  uint32_t qk_nope_head_dim = 0;
  uint32_t qk_rope_head_dim = 0;
  uint32_t v_head_dim = 0;
  bool operator==(const LatentAttention&) const = default;
};

struct ModelShape {
  std::string name;        // as it was asked for
  std::string source;      // where the sizes are from: a repository of Hugging Face, or a file
  std::string model_type;  // config.json's
  uint32_t hidden = 0;
  uint32_t layers = 0;
  uint32_t heads = 0;         // query heads
  uint32_t kv_heads = 0;      // divides heads; has no meaning with latent attention
  uint32_t head_dim = 0;      // has no meaning with latent attention
  uint32_t intermediate = 0;  // width of the plain MLP
  uint32_t vocab = 0;
  uint32_t max_position = 0;  // what the model was made for; 0 when the file doesn't say
  double rope_theta = 10000;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;  // of attention's output
  bool mlp_bias = false;
  bool qk_norm = false;  // RMSNorm over head_dim of each query and key (Qwen3)
  std::optional<SlidingWindow> window;
  std::optional<Experts> experts;
  std::optional<LatentAttention> latent;

  bool operator==(const ModelShape&) const = default;
};

enum class AttentionKind : uint8_t {
  kMha,  // as many KV heads as query heads
  kGqa,  // fewer
  kMqa,  // one
  kMla,  // latent
};
std::string_view AttentionKindName(AttentionKind kind);  // "MHA", "GQA", "MQA", "MLA"
AttentionKind AttentionKindOf(const ModelShape& shape);

// Invalid argument, naming the field, when a count is 0 or absurd, when heads don't divide, or when
// a part contradicts the whole.
Status ValidateModelShape(const ModelShape& shape);

}  // namespace kvbed
