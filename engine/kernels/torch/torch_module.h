// The kernels on libtorch as a module of their own, which the program loads when it is asked for
// them: libtorch takes a quarter of a second of CPU to load, which commands without it need not
// pay. This header is the seam: both sides are of one build, and share the C++ types in it.
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

// A model's forward pass; torch_model.h says what its functions promise.
class TorchForward {
 public:
  virtual ~TorchForward() = default;
  virtual Status Forward(const ForwardCall& call) = 0;
  virtual uint64_t weight_bytes() const = 0;
  virtual NumericEnvironment environment() const = 0;
};

struct TorchModule {
  const char* build = nullptr;  // kTorchModuleBuild and kTorchModuleSizes, of the module
  uint64_t sizes = 0;
  Result<std::unique_ptr<TorchForward>> (*open)(const ModelFiles& model, DType dtype,
                                                uint32_t threads) = nullptr;
  std::string (*describe)() = nullptr;
};

inline constexpr const char* kTorchModuleFile = "libkvbed_torch.so";
inline constexpr const char* kTorchModuleSymbol = "kvbed_torch_module";
// The same in the program and in a module of the same build: kvbed's version and libtorch's, and
// the sizes of what goes between them.
inline constexpr const char* kTorchModuleBuild = KVBED_TORCH_MODULE_BUILD;
inline constexpr uint64_t kTorchModuleSizes =
    ((sizeof(ModelFiles) * 4096 + sizeof(Sequence)) * 4096 + sizeof(ForwardCall)) * 4096 +
    sizeof(NumericEnvironment);

}  // namespace kvbed
