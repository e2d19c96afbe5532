#include "engine/kernels/native/rope_table.h"

#include <cmath>

#include "engine/model/float_formats.h"

namespace kvbed {

RopeTable::RopeTable(const ModelConfig& config, DType dtype)
    : dtype_(dtype), frequencies_(RopeInverseFrequencies(config)) {}

void RopeTable::Extend(uint64_t end) {
  const auto rounded = [&](float x) {
    return dtype_ == DType::kBf16 ? Bf16ToFloat(FloatToBf16(x)) : x;
  };
  for (uint64_t position = cos_.size() / half(); position < end; ++position) {
    for (const float frequency : frequencies_) {
      const float angle = static_cast<float>(position) * frequency;
      cos_.push_back(rounded(std::cos(angle)));
      sin_.push_back(rounded(std::sin(angle)));
    }
  }
}

}  // namespace kvbed
