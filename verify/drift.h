// Drift: what a recomputed cache differs by from the cached one, as numbers. It is rounding and
// never a failure; the bytes verdict is verdict.h's. It doesn't know the tokenizer or the kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "offload/kv_geometry.h"
#include "offload/status.h"
#include "verify/kv_view.h"

namespace kvbed {

// A set of elements of the one cache against the same ones of the other.
struct DriftPart {
  uint64_t elements = 0;
  uint64_t identical = 0;  // bit for bit; -0 and +0 are not
  // Of the elements that are finite on both sides:
  double max_abs = 0;       // largest |difference|
  uint64_t max_ulp = 0;     // largest distance in units of the last place: how many values of the
                            // dtype further; -0 and +0 are 0 apart
  uint64_t non_finite = 0;  // elements that differ and are an infinity or NaN on a side

  double identical_pct() const;  // 100 for no elements
  double differing_pct() const;  // 0 only when all are identical
  void Add(const DriftPart& other);
  bool operator==(const DriftPart&) const = default;
};

// Prompt positions are those of the prefill, decode positions the later ones.
struct LayerDrift {
  uint32_t layer = 0;
  DriftPart k_prompt, k_decode, v_prompt, v_decode;

  DriftPart k() const;
  DriftPart v() const;
  bool operator==(const LayerDrift&) const = default;
};

struct KvDrift {
  std::vector<LayerDrift> layers;
  double k_abs_max = 0;                 // largest finite |K| of the cached run
  std::optional<uint32_t> first_layer;  // the first that differs
  // The first token whose K or V differs in any layer, and the first such one of a decode call.
  std::optional<uint64_t> first_position;
  std::optional<uint64_t> first_decode_position;

  DriftPart total() const;
  DriftPart prompt() const;
  DriftPart decode() const;
  DriftPart k() const;
  DriftPart v() const;
};

// The first `tokens` tokens, of which the first `prompt_tokens` were prefilled. Invalid argument
// when the two have other shapes (block_tokens may differ) or fewer tokens.
Result<KvDrift> MeasureKvDrift(const KvView& cached, const KvView& recomputed, uint64_t tokens,
                               uint64_t prompt_tokens);

// A position at which the greedy token of the recomputed pass is another.
struct TokenFlip {
  uint64_t position = 0;
  int32_t cached_id = 0;
  float cached_logit = 0;                   // of cached_id in the cached run
  float cached_logit_of_recomputed_id = 0;  // of recomputed_id there
  int32_t recomputed_id = 0;
  float recomputed_logit = 0;               // of recomputed_id in the recomputed pass
  float recomputed_logit_of_cached_id = 0;  // of cached_id there
  // The recomputed (full) pass' largest logit less its second largest, and that in steps of the
  // dtype at the largest; null when one of the two is not finite.
  std::optional<double> top2_gap;
  std::optional<double> gap_steps;
  bool operator==(const TokenFlip&) const = default;
};

// Greedy takes the lowest id among equal logits and never a NaN. Null when both passes pick the
// same. `cached` and `recomputed` are of one position and as long.
std::optional<TokenFlip> FindFlip(uint64_t position, std::span<const float> cached,
                                  std::span<const float> recomputed, DType dtype);

// Distance of two neighbouring values of `dtype` at `value`.
double DTypeStep(DType dtype, double value);

}  // namespace kvbed
