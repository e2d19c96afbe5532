#include "tools/drift/recompute_drift.h"

namespace kvbed {

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

}  // namespace kvbed
