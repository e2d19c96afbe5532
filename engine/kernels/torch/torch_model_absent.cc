// Takes the place of torch_model.cc in a build without torch: there is no such model to be had.
#include "engine/kernels/torch/torch_model.h"
#include "offload/check.h"

namespace kvbed {

class TorchForward {};

Result<TorchModel> TorchModel::Open(const ModelFiles&, DType, uint32_t) {
  return Status::NotSupported(
      "this kvbed was built without torch (KVBED_WITH_TORCH=OFF): use --kernels native, or build "
      "the release preset");
}

TorchModel::TorchModel(std::unique_ptr<TorchForward> forward) : forward_(std::move(forward)) {}
TorchModel::TorchModel(TorchModel&&) noexcept = default;
TorchModel& TorchModel::operator=(TorchModel&&) noexcept = default;
TorchModel::~TorchModel() = default;

Status TorchModel::Forward(const ForwardCall&) {
  KVBED_CHECK(!"there is a torch model in a build without torch");
  return Status::Ok();
}

uint64_t TorchModel::weight_bytes() const { return 0; }
NumericEnvironment TorchModel::environment() const { return {}; }

bool HasTorchKernels() { return false; }
Result<std::string> DescribeTorch() { return std::string(); }

}  // namespace kvbed
