// A Llama-family model on kvbed's own kernels. A token's K, V and logits are a function of the
// tokens before it alone: the same bits one by one or in a chunk, alone or in a batch, on one
// thread or several. One caller at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/kernels/forward_call.h"
#include "engine/kernels/native/kernel_table.h"
#include "engine/model/model_files.h"
#include "offload/kv_geometry.h"
#include "offload/numeric_environment.h"
#include "offload/status.h"

namespace kvbed {

class NativeModel {
 public:
  // Reads and packs the weights; `model` may go afterwards. `isa` names a table of kernels or an
  // arithmetic, or is empty for the fastest here. Out of space when memory doesn't suffice; not
  // supported where the CPU has none of the instruction sets, with their names.
  static Result<NativeModel> Open(const ModelFiles& model, DType dtype, uint32_t threads,
                                  const std::string& isa);
  // On these kernels.
  static Result<NativeModel> OpenWith(const ModelFiles& model, uint32_t threads,
                                      const KernelTable& table);

  NativeModel(NativeModel&&) noexcept;
  NativeModel& operator=(NativeModel&&) noexcept;
  ~NativeModel();

  Status Forward(const ForwardCall& call);
  // One pass over the weights for each kPanelRows rows.
  Status DecodeBatch(const DecodeCall& call);

  uint64_t weight_bytes() const;  // as held in memory
  // All but the prefill chunk.
  NumericEnvironment environment() const;

 private:
  struct Parts;
  explicit NativeModel(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// Whether this CPU and this build have native kernels.
bool HasNativeKernels();

}  // namespace kvbed
