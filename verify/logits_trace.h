// What a run computed, step by step: a digest of each decode call's logits and the token picked
// from them. It doesn't know how tokens are picked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "offload/digest.h"

namespace kvbed {

struct LogitsStep {
  int32_t token = 0;  // picked from these logits
  Digest128 logits;   // XXH3-128 over the logits as fp32
  bool operator==(const LogitsStep&) const = default;
};

class LogitsTrace {
 public:
  enum class Keep { kDigests, kLogits };

  explicit LogitsTrace(Keep keep = Keep::kDigests) : keep_(keep) {}
  // A trace that was written down, e.g. in a ledger: digests only.
  explicit LogitsTrace(std::vector<LogitsStep> steps)
      : keep_(Keep::kDigests), steps_(std::move(steps)) {}

  // The next decode call: its logits, always as many, and the token picked from them.
  void Add(std::span<const float> logits, int32_t token);

  const std::vector<LogitsStep>& steps() const { return steps_; }
  bool has_logits() const { return keep_ == Keep::kLogits; }
  // Of one step; empty when logits are not kept.
  std::span<const float> logits(size_t step) const;

 private:
  Keep keep_;
  std::vector<LogitsStep> steps_;
  std::vector<float> logits_;  // [step][vocab], when kept
  size_t vocab_ = 0;
};

struct TraceComparison {
  uint64_t expected_steps = 0;
  uint64_t actual_steps = 0;
  uint64_t steps = 0;  // compared: those that both have

  uint64_t differing_logits_steps = 0;
  std::optional<uint64_t> first_differing_logits_step;  // counted from the first compared one
  // Of all compared logits; null when some differ and either side didn't keep them.
  std::optional<uint64_t> differing_bits;

  uint64_t differing_token_steps = 0;
  std::optional<uint64_t> first_differing_token_step;
};

// `actual` step 0 against `expected` step `first_step`, and so on.
TraceComparison CompareTraces(const LogitsTrace& expected, uint64_t first_step,
                              const LogitsTrace& actual);

}  // namespace kvbed
