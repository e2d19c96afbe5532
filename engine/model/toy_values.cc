#include "engine/model/toy_values.h"

#include "offload/digest.h"

// Each operation rounds to fp32 by itself: this file must not be compiled with contraction to FMA.

namespace kvbed {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
// OOPSLA 2014) as published by S. Vigna.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;  // SplitMix64's increment

}  // namespace

uint64_t TensorSeed(uint64_t model_seed, std::string_view name) {
  return Mix(Mix(model_seed + kGolden) ^ Xxh3_64(AsBytes(name)));
}

void GenerateValues(const GeneratorSpec& spec, uint64_t first, std::span<float> out) {
  // The sum of four uniform 16-bit numbers: mean 4 * 32767.5, deviation sqrt(4 * (2^32 - 1) / 12).
  constexpr float kDeviation = 37837.2265f;
  const float scale = spec.deviation / kDeviation;
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t bits = Mix(spec.seed + (first + i + 1) * kGolden);
    const auto sum = static_cast<int32_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                          (bits >> 32 & 0xffff) + (bits >> 48)) -
                     131070;
    out[i] = spec.mean + static_cast<float>(sum) * scale;
  }
}

}  // namespace kvbed
