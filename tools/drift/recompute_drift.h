// Drift of a cached run: its tokens are run once more in one call without a cache, and K, V and
// greedy tokens of the two compared. It prints nothing.
#pragma once

#include <cstdint>
#include <span>

#include "engine/engine.h"
#include "engine/model/model_files.h"
#include "offload/sequence.h"
#include "offload/status.h"
#include "tools/drift/drift_report.h"
#include "verify/kv_view.h"
#include "verify/logits_trace.h"

namespace kvbed {

struct CachedRun {
  KvView kv;
  std::span<const TokenId> tokens;  // whose K and V are in `kv`
  uint64_t prompt_tokens = 0;
  const LogitsTrace& trace;  // step 0 stands at the last prompt token
};

// `recomputed` must be empty, in a pool with room for the tokens; it holds their K and V then.
Result<DriftReport> CompareWithRecompute(Engine& engine, const ModelFiles& model,
                                         const CachedRun& cached, Sequence& recomputed);

}  // namespace kvbed
