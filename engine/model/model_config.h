// The numbers that define a Llama-family model, whatever file they were read from, and the rotary
// frequencies that follow from them.
// It doesn't know files, weights or kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "offload/kv_geometry.h"
#include "offload/status.h"

namespace kvbed {

using TokenId = int32_t;  // an index into the vocabulary, never negative

enum class RopeKind : uint8_t {
  kDefault,  // theta alone
  kLlama3,   // frequencies scaled by wavelength, config.json's rope_type "llama3"
};

struct RopeScaling {
  RopeKind kind = RopeKind::kDefault;
  // The four below count for kLlama3 only.
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  uint32_t original_max_position = 0;
  bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
  std::string architecture;  // "llama"
  uint32_t hidden = 0;
  uint32_t layers = 0;
  uint32_t heads = 0;         // query heads
  uint32_t kv_heads = 0;      // divides heads; query head h reads KV head h / (heads / kv_heads)
  uint32_t head_dim = 0;      // even
  uint32_t intermediate = 0;  // MLP width
  uint32_t vocab = 0;
  float rms_norm_eps = 0;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  // GGUF's rope_freqs.weight: what each of the head_dim/2 frequencies is divided by. Empty when
  // there is none.
  std::vector<float> rope_freq_divisors;
  // The output matrix is the embedding matrix: the weights hold no lm_head.weight of their own.
  bool tie_word_embeddings = false;
  uint32_t max_position = 0;     // what the model was made for; 0 when the file doesn't say
  std::vector<TokenId> bos_ids;  // none or one
  std::vector<TokenId> eos_ids;  // any of them ends a text
  // How the layers' matrices are stored, e.g. "BF16" or "Q4_1"; "generated" for a toy.
  std::string stored_dtype;

  uint32_t query_rows() const { return heads * head_dim; }
  uint32_t kv_rows() const { return kv_heads * head_dim; }

  bool operator==(const ModelConfig&) const = default;
};

// Invalid argument, naming the field, when a count is 0 or beyond what kvbed indexes with, when
// heads don't divide, when head_dim is odd, or when a RoPE or norm number makes no sense.
Status ValidateModelConfig(const ModelConfig& config);

// The refusal of a model that would run, but not as its makers meant.
Status RefuseModel(std::string_view what);

// The head_dim/2 angular frequencies in radians per position, in fp32, operation by operation as
// transformers computes them in torch (modeling_rope_utils.py, _compute_default_rope_parameters and
// _compute_llama3_parameters), then divided by rope_freq_divisors as llama.cpp does.
// The angle of integer position p and dims d, d + head_dim/2 is float(p) * frequency[d].
std::vector<float> RopeInverseFrequencies(const ModelConfig& config);

// The KV blocks of this model.
KvGeometry GeometryOf(const ModelConfig& config, DType dtype, uint32_t block_tokens);

// K and V of one token over all layers, without padding.
uint64_t KvBytesPerToken(const ModelConfig& config, uint64_t element_bytes);

}  // namespace kvbed
