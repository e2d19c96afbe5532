// Seeded numbers with roughly a normal distribution, each computed from its position alone, so that
// any row of a toy's tensor can be had without the others. The same bits on every platform.
// It doesn't know tensors or models.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kvbed {

struct GeneratorSpec {
  uint64_t seed = 0;  // of one tensor
  float mean = 0;
  float deviation = 0;
  bool operator==(const GeneratorSpec&) const = default;
};

// Goes into digests; changes whenever the numbers would.
inline constexpr std::string_view kGeneratorName = "kvbed-toy-1";

// The seed of the tensor `name` in a toy of seed `model_seed`.
uint64_t TensorSeed(uint64_t model_seed, std::string_view name);

// out[i] becomes number `first + i` of the sequence. Numbers lie within mean +- 3.47 deviations.
void GenerateValues(const GeneratorSpec& spec, uint64_t first, std::span<float> out);

}  // namespace kvbed
