// What one comparison of a cached run with its recompute has to tell, as plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace kvbed
