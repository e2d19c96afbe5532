// What one comparison of a cached run with its recompute has to tell, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/numeric_environment.h"
#include "verify/drift.h"

namespace kvbed {

struct DriftReport {
  KvDrift kv;
  std::string kernels;
  uint64_t positions = 0;                                   // greedy picks that were compared
  uint64_t positions_left_out = 0;                          // whose logits weren't kept
  std::vector<TokenFlip> flips;                             // in order of their positions
  std::vector<std::string> cached_texts, recomputed_texts;  // of the flips
};

// What `run` has of another set of kernels: the same tokens, cached and recomputed on it.
struct KernelsDrift {
  std::string kernels;
  std::optional<DriftReport> drift;
  std::string reason;              // why there is none
  NumericEnvironment environment;  // of a drift that was measured
  uint64_t load_ns = 0;
  uint64_t prefill_ns = 0;
  uint64_t decode_ns = 0;  // of all calls
  uint64_t recompute_ns = 0;
};

}  // namespace kvbed
