// The arithmetic of a plan: bytes, times and users for each variant, context and number of users.
// It reads no file and measures nothing: what comes out follows from the request alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/model/shape_kv.h"
#include "offload/status.h"
#include "tools/plan/plan_request.h"

namespace kvbed {

// The model itself, or what it would be with as many KV heads as query heads, with 8, or with one.
struct PlanVariant {
  ModelShape shape;
  bool own = false;  // the model itself
  KvSplit split;
  uint64_t parameters = 0;
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes_per_token = 0;  // of all ranks, replicas among them, while no window is full
};

struct PlanRow {
  uint64_t ctx_tokens = 0;
  uint64_t users = 0;
  uint64_t kv_bytes = 0;            // of all users on all ranks
  uint64_t rank_kv_bytes = 0;       // of all users on one rank
  double ratio = 0;                 // kv_bytes / weight bytes
  std::optional<double> restore_s;  // all users' KV read at the disk's rate
  std::optional<double> prefill_s;  // all users' tokens at the prefill rate
  // The read speed at which restoring takes as long as computing again.
  std::optional<double> break_even_gb_per_s;
  // The prefill rate at which computing again takes as long as restoring.
  std::optional<double> break_even_tok_per_s;
  std::optional<double> claim_gb_per_s;     // kv_bytes in the claimed time
  std::optional<uint64_t> users_in_memory;  // of this context, beside the weights
  std::optional<uint64_t> users_on_disk;    // of this context
};

struct PlannedVariant {
  PlanVariant variant;
  std::vector<PlanRow> rows;  // users vary fastest
};

struct Plan {
  PlanRequest request;
  std::vector<PlannedVariant> variants;  // the model's own first
  PlanRow answer;                        // one user at the longest context, own variant

  const PlanVariant& own() const { return variants.front().variant; }
};

// Invalid argument when the ranks can't share the heads, when a size is 2^64 bytes or more, and
// when there would be more than 100,000 rows.
Result<Plan> MakePlan(PlanRequest request);

}  // namespace kvbed
