// A Llama-family model on libtorch's kernels: the reference, rounding where transformers rounds.
// The kernels are a module that is loaded at the first Open; nothing else needs libtorch. It
// doesn't know stores or samplers, and shows no torch type. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/kernels/forward_call.h"
#include "engine/model/model_files.h"
#include "offload/kv_geometry.h"
#include "offload/numeric_environment.h"
#include "offload/status.h"

namespace kvbed {

class TorchForward;

class TorchModel {
 public:
  // Reads the weights into tensors; `model` may go afterwards. Out of space when memory doesn't
  // suffice; not supported in a build without torch, or where the module can't be loaded.
  static Result<TorchModel> Open(const ModelFiles& model, DType dtype, uint32_t threads);

  TorchModel(TorchModel&&) noexcept;
  TorchModel& operator=(TorchModel&&) noexcept;
  ~TorchModel();

  // On failure (out of space, or what torch says as not supported) any of the call's K and V may
  // have been written.
  Status Forward(const ForwardCall& call);

  uint64_t weight_bytes() const;  // as held in memory
  // All but the prefill chunk.
  NumericEnvironment environment() const;

 private:
  explicit TorchModel(std::unique_ptr<TorchForward> forward);
  std::unique_ptr<TorchForward> forward_;
};

// Whether this build has them; loads nothing.
bool HasTorchKernels();

// "torch 2.13.0, AVX2, BLAS mkl": the library and the instructions and BLAS in effect. Empty in a
// build without torch. Loads the module; its error otherwise.
Result<std::string> DescribeTorch();

}  // namespace kvbed
