// cos and sin of every position's angles, for the native kernels. One thread extends it, any may
// read.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model_config.h"
#include "offload/kv_geometry.h"

namespace kvbed {

class RopeTable {
 public:
  // Values are rounded to the dtype.
  RopeTable(const ModelConfig& config, DType dtype);

  // Makes the positions below `end` known.
  void Extend(uint64_t end);
  // head_dim / 2 floats each, valid until the next Extend.
  const float* Cos(uint64_t position) const { return cos_.data() + position * half(); }
  const float* Sin(uint64_t position) const { return sin_.data() + position * half(); }
  uint32_t half() const { return static_cast<uint32_t>(frequencies_.size()); }

 private:
  DType dtype_;
  std::vector<float> frequencies_;
  std::vector<float> cos_, sin_;  // [position][head_dim / 2]
};

}  // namespace kvbed
