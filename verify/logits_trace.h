// What each step of a run gave: the picked token and the logits it was picked from, as a digest
// and, as far as memory allows, whole. Step 0 is the prefill's, step i the i-th decode call's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "offload/digest.h"

namespace kvbed {

// XXH3-128 of the logits' fp32 bytes.
Digest128 DigestLogits(std::span<const float> logits);

// One step as it is written down.
struct LogitsStep {
  int32_t token = 0;  // picked from these logits
  Digest128 logits;
  bool operator==(const LogitsStep&) const = default;
};

class LogitsTrace {
 public:
  // Logits are kept whole up to this many bytes, as digests beyond.
  explicit LogitsTrace(uint64_t kept_bytes_max = uint64_t{512} << 20)
      : kept_bytes_max_(kept_bytes_max) {}

  // A trace that was written down, e.g. in a ledger: no logits are kept.
  explicit LogitsTrace(std::span<const LogitsStep> steps);

  void Append(std::span<const float> logits, int32_t picked);

  uint64_t steps() const { return digests_.size(); }
  int32_t picked(uint64_t step) const { return picked_[step]; }
  const Digest128& digest(uint64_t step) const { return digests_[step]; }
  // The steps from `first` on, to be written down.
  std::vector<LogitsStep> StepsFrom(uint64_t first) const;
  // Empty for a step whose logits were not kept.
  std::span<const float> logits(uint64_t step) const;

 private:
  uint64_t kept_bytes_max_;
  uint64_t kept_bytes_ = 0;
  std::vector<Digest128> digests_;
  std::vector<int32_t> picked_;
  std::vector<std::vector<float>> logits_;
};

struct TraceComparison {
  uint64_t reference_steps = 0;  // from the first compared one on
  uint64_t other_steps = 0;
  uint64_t steps = 0;  // compared: those that both have
  uint64_t differing_logits_steps = 0;
  uint64_t differing_token_steps = 0;
  std::optional<uint64_t> first_logits_step;  // of the reference, the first that differs
  std::optional<uint64_t> first_token_step;
  // Nullopt when a differing step's logits weren't kept.
  std::optional<uint64_t> differing_bits = 0;
};

// Step `first` of `reference`, which has so many, against step 0 of `other`, and so on as far as
// both go.
TraceComparison CompareTraces(const LogitsTrace& reference, uint64_t first,
                              const LogitsTrace& other);

}  // namespace kvbed
