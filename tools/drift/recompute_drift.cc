#include "tools/drift/recompute_drift.h"

#include <fmt/format.h>

#include <utility>

#include "engine/sampler.h"
#include "offload/check.h"
#include "offload/clock.h"
#include "tools/interrupt.h"
#include "tools/memory_room.h"

namespace kvbed {
namespace {

// Working memory of a token in the one call that recomputes: hidden states, queries, keys, values
// and MLP, in fp32. An estimate.
uint64_t RecomputeBytesPerToken(const ModelConfig& config) {
  const uint64_t floats = 4 * uint64_t{config.hidden} + 2 * uint64_t{config.query_rows()} +
                          4 * uint64_t{config.kv_rows()} + 4 * uint64_t{config.intermediate};
  return floats * sizeof(float);
}

}  // namespace

Result<MadeCache> MakeCache(Engine& engine, Sequence& sequence, const TokensToCache& tokens,
                            const std::function<void(uint64_t)>& progress) {
  KVBED_CHECK(tokens.forced.empty() || tokens.forced.size() == tokens.decode_calls);
  MadeCache made;
  made.prompt_tokens = tokens.prompt.size();
  made.tokens.assign(tokens.prompt.begin(), tokens.prompt.end());
  std::vector<float> logits(engine.config().vocab);
  KVBED_ASSIGN_OR_RETURN(Sampler greedy, Sampler::Create({}));
  const uint64_t start_ns = MonotonicNs();
  KVBED_RETURN_IF_ERROR(engine.Prefill(sequence, tokens.prompt, logits, [&](uint64_t done) {
    progress(done);
    return !Interrupted();
  }));
  const uint64_t prefilled_ns = MonotonicNs();
  made.prefill_ns = prefilled_ns - start_ns;
  made.trace.Append(logits, greedy.Pick(logits));
  for (uint64_t call = 0; call < tokens.decode_calls; ++call) {
    if (Interrupted()) return InterruptedStatus();
    made.tokens.push_back(tokens.forced.empty() ? made.trace.picked(call) : tokens.forced[call]);
    KVBED_RETURN_IF_ERROR(engine.Decode(sequence, made.tokens.back(), logits));
    made.trace.Append(logits, greedy.Pick(logits));
    progress(made.tokens.size());
  }
  made.decode_ns = MonotonicNs() - prefilled_ns;
  made.image = KvImage::CopyOf(sequence);
  return made;
}

Result<DriftReport> CompareWithRecompute(Engine& engine, const ModelFiles& model,
                                         const CachedRun& cached, Sequence& recomputed) {
  DriftReport drift;
  drift.kernels = engine.environment().kernel_set;
  const auto text_of = [&](TokenId id) {
    return model.tokenizer ? model.tokenizer->TokenText(id) : std::string();
  };
  // The logits at position p pick token p + 1.
  const uint64_t first = cached.prompt_tokens - 1;
  const auto on_logits = [&](uint64_t position, std::span<const float> logits) {
    const std::span<const float> kept = cached.trace.logits(position - first);
    if (kept.empty()) {
      ++drift.positions_left_out;
      return;
    }
    ++drift.positions;
    const auto flip = FindFlip(position, kept, logits, engine.dtype());
    if (!flip) return;
    drift.flips.push_back(*flip);
    drift.cached_texts.push_back(text_of(flip->cached_id));
    drift.recomputed_texts.push_back(text_of(flip->recomputed_id));
  };
  KVBED_RETURN_IF_ERROR(engine.Recompute(recomputed, cached.tokens, first, on_logits));
  KVBED_ASSIGN_OR_RETURN(drift.kv, MeasureKvDrift(cached.kv, KvView::Of(recomputed),
                                                  cached.tokens.size(), cached.prompt_tokens));
  return drift;
}

Status CheckMemoryToRecompute(const ModelConfig& config, const KvGeometry& geometry,
                              uint64_t tokens, uint64_t kv_copies) {
  return CheckMemoryFor(tokens,
                        kv_copies * geometry.kv_bytes_per_token() + RecomputeBytesPerToken(config),
                        fmt::format("{} tokens that are recomputed in one call", tokens));
}

}  // namespace kvbed
