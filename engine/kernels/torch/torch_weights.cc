#include "engine/kernels/torch/torch_weights.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu_features.h"
#include "engine/parallel_for.h"

namespace kvbed {
namespace {

// Rows of one tensor, converted by one thread at a time.
struct Piece {
  const WeightTensor* tensor = nullptr;
  LinearForm form = LinearForm::kFp32;
  void* data = nullptr;  // of the whole tensor
  uint64_t first_row = 0;
  uint64_t rows = 0;
};

void Convert(const Piece& piece) {
  const WeightTensor& tensor = *piece.tensor;
  const uint64_t first = piece.first_row * tensor.columns();
  const uint64_t count = piece.rows * tensor.columns();
  switch (piece.form) {
    case LinearForm::kFp32:
      tensor.ReadRows(piece.first_row, piece.rows,
                      {static_cast<float*>(piece.data) + first, count});
      return;
    case LinearForm::kBf16:
      tensor.ReadRowsBf16(piece.first_row, piece.rows,
                          {static_cast<uint16_t*>(piece.data) + first, count});
      return;
    case LinearForm::kBf16AsFp32: {
      // The bf16 values are put into the upper half of their own place and widened from the front:
      // number i is read before the byte 4 * i + 3 that overwrites it is written.
      std::byte* const out = static_cast<std::byte*>(piece.data) + first * sizeof(float);
      std::byte* const halves = out + count * sizeof(uint16_t);
      tensor.ReadRowsBf16(piece.first_row, piece.rows,
                          {reinterpret_cast<uint16_t*>(halves), count});
      for (uint64_t i = 0; i < count; ++i) {
        uint16_t bf16 = 0;
        std::memcpy(&bf16, halves + i * sizeof(bf16), sizeof(bf16));
        const uint32_t fp32 = uint32_t{bf16} << 16;
        std::memcpy(out + i * sizeof(fp32), &fp32, sizeof(fp32));
      }
      return;
    }
  }
}

// Makes the tensors and lists the pieces that fill them.
class Plan {
 public:
  explicit Plan(const Weights& weights) : weights_(weights) {}

  at::Tensor Add(std::string_view name, LinearForm form) {
    const WeightTensor& stored = weights_.At(name);
    std::vector<int64_t> shape(stored.shape.begin(), stored.shape.end());
    at::Tensor tensor = at::empty(shape, form == LinearForm::kBf16 ? at::kBFloat16 : at::kFloat);
    bytes_ += tensor.nbytes();
    constexpr uint64_t kPieceElements = 1 << 17;
    const uint64_t rows = std::max<uint64_t>(1, kPieceElements / stored.columns());
    for (uint64_t row = 0; row < stored.rows(); row += rows) {
      pieces_.push_back(
          {&stored, form, tensor.data_ptr(), row, std::min(rows, stored.rows() - row)});
    }
    return tensor;
  }

  void Run(uint32_t threads) const {
    ParallelFor(threads, pieces_.size(), [&](uint64_t i) { Convert(pieces_[i]); });
  }
  uint64_t bytes() const { return bytes_; }

 private:
  const Weights& weights_;
  std::vector<Piece> pieces_;
  uint64_t bytes_ = 0;
};

}  // namespace

std::string_view LinearFormName(LinearForm form) {
  switch (form) {
    case LinearForm::kFp32: return "fp32";
    case LinearForm::kBf16: return "bf16";
    case LinearForm::kBf16AsFp32: return "bf16 as fp32";
  }
  return "";
}

LinearForm ChooseLinearForm(DType dtype) {
  if (dtype == DType::kFp32) return LinearForm::kFp32;
  return CpuMultipliesBf16() ? LinearForm::kBf16 : LinearForm::kBf16AsFp32;
}

TorchWeights LoadTorchWeights(const ModelFiles& model, LinearForm form, uint32_t threads) {
  // What is added or looked up, never multiplied with a matrix, is in the activations' dtype.
  const LinearForm plain = form == LinearForm::kFp32 ? form : LinearForm::kBf16;
  const bool tied = model.config.tie_word_embeddings;
  Plan plan(model.weights);
  TorchWeights weights;
  weights.embedding = plan.Add(kEmbeddingName, tied ? form : plain);
  weights.output = tied ? weights.embedding : plan.Add(kOutputName, form);
  weights.final_norm = plan.Add(kFinalNormName, plain);
  for (uint32_t i = 0; i < model.config.layers; ++i) {
    const auto add = [&](std::string_view part, LinearForm as) {
      return plan.Add(LayerTensorName(i, part), as);
    };
    TorchLayer& layer = weights.layers.emplace_back();
    layer.input_norm = add("input_layernorm.weight", plain);
    layer.q = add("self_attn.q_proj.weight", form);
    layer.k = add("self_attn.k_proj.weight", form);
    layer.v = add("self_attn.v_proj.weight", form);
    layer.o = add("self_attn.o_proj.weight", form);
    layer.post_norm = add("post_attention_layernorm.weight", plain);
    layer.gate = add("mlp.gate_proj.weight", form);
    layer.up = add("mlp.up_proj.weight", form);
    layer.down = add("mlp.down_proj.weight", form);
  }
  plan.Run(threads);
  weights.bytes = plan.bytes();
  return weights;
}

}  // namespace kvbed
