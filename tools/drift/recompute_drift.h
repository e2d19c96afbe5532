// Drift of a cached run: its tokens are run once more in one call without a cache, and K, V and
// greedy tokens of the two compared. It prints nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/model/model_files.h"
#include "offload/sequence.h"
#include "offload/status.h"
#include "tools/drift/drift_report.h"
#include "verify/kv_image.h"
#include "verify/kv_view.h"
#include "verify/logits_trace.h"

namespace kvbed {

struct CachedRun {
  KvView kv;
  std::span<const TokenId> tokens;  // whose K and V are in `kv`
  uint64_t prompt_tokens = 0;
  const LogitsTrace& trace;  // step 0 stands at the last prompt token
};

// A cached run that was made to be compared.
struct MadeCache {
  std::vector<TokenId> tokens;
  uint64_t prompt_tokens = 0;
  LogitsTrace trace;
  KvImage image;
  uint64_t prefill_ns = 0;
  uint64_t decode_ns = 0;  // of all calls

  CachedRun AsCachedRun() const { return {image.view(), tokens, prompt_tokens, trace}; }
};

struct TokensToCache {
  std::span<const TokenId> prompt;
  uint64_t decode_calls = 0;
  // What the decode calls run, whatever the logits would pick: that many. Empty: the greedy picks.
  std::span<const TokenId> forced;
};

// Prefill and decode calls. `sequence` must be empty, in a pool with room for the tokens; the image
// is a copy of it. `progress` is told how many tokens are done.
Result<MadeCache> MakeCache(Engine& engine, Sequence& sequence, const TokensToCache& tokens,
                            const std::function<void(uint64_t)>& progress);

// `recomputed` must be empty, in a pool with room for the tokens; it holds their K and V then.
Result<DriftReport> CompareWithRecompute(Engine& engine, const ModelFiles& model,
                                         const CachedRun& cached, Sequence& recomputed);

// Whether memory suffices to run `tokens` tokens in one call, with `kv_copies` copies of their K
// and V besides what there is.
Status CheckMemoryToRecompute(const ModelConfig& config, const KvGeometry& geometry,
                              uint64_t tokens, uint64_t kv_copies);

}  // namespace kvbed
