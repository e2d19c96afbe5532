// A model's weights as tensors in the form that torch's kernels take. Engine-private: it brings
// torch's headers. It doesn't know the forward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/model/model_files.h"
#include "offload/kv_geometry.h"

namespace kvbed {

// How y = x * W^T is computed.
enum class LinearForm : uint8_t {
  kFp32,
  kBf16,
  // bf16 values held as fp32 and multiplied in fp32, the product rounded to bf16: bf16 inputs, fp32
  // sums, one rounding, as a bf16 product is. For CPUs that don't multiply bf16: on an EPYC 7003
  // (Zen 3, torch 2.13) at::linear reaches 15 GFLOP/s in bf16 and 85 in fp32 with 512 rows, and
  // reads 6.8 GB/s of weights in bf16 and 19.6 in fp32 with one. Without MKL, as in Debian's torch,
  // attention is computed so too: its bf16 products have no fast kernel then, and a prefill of
  // 1,003 tokens of SmolLM2-135M takes 15.5 s instead of 3.5.
  kBf16AsFp32,
};

std::string_view LinearFormName(LinearForm form);  // "fp32", "bf16", "bf16 as fp32"

// What this CPU does best; decided by its capabilities and never by timing, so that two runs agree.
LinearForm ChooseLinearForm(DType dtype);

struct TorchLayer {
  at::Tensor input_norm;  // [hidden]
  at::Tensor q;           // [heads * head_dim, hidden]
  at::Tensor k;           // [kv_heads * head_dim, hidden]
  at::Tensor v;           // [kv_heads * head_dim, hidden]
  at::Tensor o;           // [hidden, heads * head_dim]
  at::Tensor post_norm;   // [hidden]
  at::Tensor gate;        // [intermediate, hidden]
  at::Tensor up;          // [intermediate, hidden]
  at::Tensor down;        // [hidden, intermediate]
};

struct TorchWeights {
  at::Tensor embedding;  // [vocab, hidden]
  std::vector<TorchLayer> layers;
  at::Tensor final_norm;  // [hidden]
  at::Tensor output;      // [vocab, hidden]; the embedding's own when the model ties them
  uint64_t bytes = 0;     // of all tensors, a shared one counted once
};

// Reads and dequantises all weights on `threads` threads. Throws as torch's allocator does.
TorchWeights LoadTorchWeights(const ModelFiles& model, LinearForm form, uint32_t threads);

}  // namespace kvbed
