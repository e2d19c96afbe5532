// What a plan is asked: a shape, contexts, users, and the rates and room that are known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/model_shape.h"
#include "offload/kv_geometry.h"
#include "tools/given_value.h"

namespace kvbed {

struct PlanRequest {
  ModelShape shape;
  DType kv_dtype = DType::kBf16;
  DType weight_dtype = DType::kBf16;
  uint32_t tp = 1;                                          // ranks of tensor parallelism
  std::vector<uint64_t> ctx = {4096, 8192, 32768, 131072};  // tokens of one user, each at least 1
  std::vector<uint64_t> users = {1};                        // each at least 1
  std::optional<SourcedValue> disk_gb_per_s;
  std::optional<SourcedValue> prefill_tok_per_s;  // of all ranks together
  std::string no_prefill_reason;         // why the rows that were asked have none; may be empty
  std::optional<uint64_t> memory_bytes;  // of one rank, for its weights and its KV
  std::optional<uint64_t> disk_bytes;    // for the KV of all ranks
  std::optional<SourcedValue> claim_seconds;  // a restore time that somebody published
};

}  // namespace kvbed
