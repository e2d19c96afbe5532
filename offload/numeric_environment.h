// What decides the bits of K, V and logits besides model and tokens. Two runs are comparable bit
// for bit when nothing of it differs; the bytes verdict needs none of it.
#pragma once

#include <cstdint>
#include <string>

namespace kvbed {

struct NumericEnvironment {
  std::string kernel_set;  // "torch", "native"
  std::string isa;         // CPU capability that the kernels took, e.g. "AVX2"
  std::string library;     // "torch 2.13.0"
  std::string linear;      // how matrix products are computed, e.g. "bf16 as fp32"
  uint32_t threads = 0;
  uint32_t prefill_chunk = 0;  // tokens
  bool operator==(const NumericEnvironment&) const = default;

  // "threads was 2, here 1; instruction set was AVX512, here AVX2"; empty when both give the same
  // bits. `*this` is what was stored. The native kernels sum a row in one order, whatever runs
  // beside it: to them threads and prefill chunk are no difference.
  std::string DifferenceFrom(const NumericEnvironment& here) const;
  bool GivesTheBitsOf(const NumericEnvironment& other) const {
    return DifferenceFrom(other).empty();
  }
};

// The state of the token picker after the pending token was picked.
struct SamplerState {
  double temperature = 0;  // 0: greedy
  double top_p = 1;
  uint32_t top_k = 0;  // 0: all
  uint64_t seed = 0;
  uint64_t draws = 0;  // random numbers used so far; the generator is a function of seed and draws
  bool operator==(const SamplerState&) const = default;
};

}  // namespace kvbed
