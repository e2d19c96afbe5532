// A model's tensors under their Hugging Face names, and their values as fp32 or bf16, row by row.
// It doesn't know which file format they come from, nor what a forward pass does with them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/mapped_file.h"
#include "engine/model/stored_type.h"
#include "engine/model/toy_values.h"
#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

// One tensor. A copy is cheap: it borrows the stored bytes, which live as long as the Weights.
struct WeightTensor {
  std::string name;             // "model.layers.0.self_attn.q_proj.weight"
  std::vector<uint64_t> shape;  // [rows, columns], or [columns] of a norm; no 0
  StoredType type = StoredType::kF32;
  Bytes stored;  // as in the file, at any alignment; empty for a toy
  // Above 0: the file keeps each head's rows of this many as rotary pairs side by side (GGUF's Q
  // and K), and rows are handed out in Hugging Face's order, the pair of row d being d +
  // head_dim/2.
  uint64_t interleaved_head_dim = 0;
  GeneratorSpec generator;  // counts for kGenerated only

  uint64_t rows() const { return shape.size() == 1 ? 1 : shape[0]; }
  uint64_t columns() const { return shape.back(); }
  uint64_t elements() const { return rows() * columns(); }

  // Writes rows [first, first + count) to `out`, which holds count * columns() elements, row-major.
  // The range must lie within the tensor. Any thread may call it.
  void ReadRows(uint64_t first, uint64_t count, std::span<float> out) const;
  // The same values rounded to bf16 (bit patterns), to nearest, ties to even.
  void ReadRowsBf16(uint64_t first, uint64_t count, std::span<uint16_t> out) const;
};

using TensorMap = std::map<std::string, WeightTensor, std::less<>>;

// Owns the mapped files and the tensors that borrow from them.
class Weights {
 public:
  Weights() = default;
  Weights(std::vector<MappedFile> files, TensorMap tensors);

  // Null when there is none of this name. OpenModel has checked that all that the config calls for
  // are there with the right shapes.
  const WeightTensor* Find(std::string_view name) const;
  // The same for a name that must be there.
  const WeightTensor& At(std::string_view name) const;
  // In name order.
  const TensorMap& tensors() const { return tensors_; }
  // What the tensors take as stored; of a toy: 0.
  uint64_t stored_bytes() const;

 private:
  std::vector<MappedFile> files_;
  TensorMap tensors_;
};

// The names of the tensors outside the layers.
inline constexpr std::string_view kEmbeddingName = "model.embed_tokens.weight";  // [vocab, hidden]
inline constexpr std::string_view kFinalNormName = "model.norm.weight";          // [hidden]
inline constexpr std::string_view kOutputName = "lm_head.weight";                // [vocab, hidden]

// The tensors of a layer, by what follows "model.layers.N.".
inline constexpr std::array<std::string_view, 9> kLayerParts = {
    "input_layernorm.weight",           // [hidden]
    "self_attn.q_proj.weight",          // [heads * head_dim, hidden]
    "self_attn.k_proj.weight",          // [kv_heads * head_dim, hidden]
    "self_attn.v_proj.weight",          // [kv_heads * head_dim, hidden]
    "self_attn.o_proj.weight",          // [hidden, heads * head_dim]
    "post_attention_layernorm.weight",  // [hidden]
    "mlp.gate_proj.weight",             // [intermediate, hidden]
    "mlp.up_proj.weight",               // [intermediate, hidden]
    "mlp.down_proj.weight",             // [hidden, intermediate]
};

// "model.layers.N.PART", e.g. LayerTensorName(3, "mlp.up_proj.weight").
std::string LayerTensorName(uint32_t layer, std::string_view part);

}  // namespace kvbed
