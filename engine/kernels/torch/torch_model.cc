#include "engine/kernels/torch/torch_model.h"

#include <dlfcn.h>

#include <cstring>
#include <utility>

#include "engine/kernels/torch/torch_module.h"

namespace kvbed {
namespace {

Status CantLoad(const std::string& why) {
  return Status::NotSupported("the torch kernels can't be loaded: " + why +
                              ": use --kernels native, or install kvbed again");
}

Result<const TorchModule*> LoadModule() {
  // By the program's run path: the build folder, or lib/kvbed beside an installed program's bin.
  void* const library = ::dlopen(kTorchModuleFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return CantLoad(::dlerror());
  using Entry = const TorchModule* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, kTorchModuleSymbol));
  if (entry == nullptr) return CantLoad(::dlerror());
  const TorchModule* const module = entry();
  if (std::strcmp(module->build, kTorchModuleBuild) != 0 || module->sizes != kTorchModuleSizes) {
    return CantLoad(std::string(kTorchModuleFile) + " is of another build, " + module->build);
  }
  return module;
}

// Loaded once, and never unloaded: libtorch's threads may run.
const Result<const TorchModule*>& Module() {
  static const auto& loaded = *new Result<const TorchModule*>(LoadModule());
  return loaded;
}

}  // namespace

TorchModel::TorchModel(std::unique_ptr<TorchForward> forward) : forward_(std::move(forward)) {}
TorchModel::TorchModel(TorchModel&&) noexcept = default;
TorchModel& TorchModel::operator=(TorchModel&&) noexcept = default;
TorchModel::~TorchModel() = default;

Result<TorchModel> TorchModel::Open(const ModelFiles& model, DType dtype, uint32_t threads) {
  KVBED_RETURN_IF_ERROR(Module().status());
  KVBED_ASSIGN_OR_RETURN(auto forward, (*Module())->open(model, dtype, threads));
  return TorchModel(std::move(forward));
}

Status TorchModel::Forward(const ForwardCall& call) { return forward_->Forward(call); }
uint64_t TorchModel::weight_bytes() const { return forward_->weight_bytes(); }
NumericEnvironment TorchModel::environment() const { return forward_->environment(); }

bool HasTorchKernels() { return true; }

Result<std::string> DescribeTorch() {
  KVBED_RETURN_IF_ERROR(Module().status());
  return (*Module())->describe();
}

}  // namespace kvbed
