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

class LogitsTrace {
 public:
  // Logits are kept whole up to this many bytes, as digests beyond.
  explicit LogitsTrace(uint64_t kept_bytes_max = uint64_t{512} << 20)
      : kept_bytes_max_(kept_bytes_max) {}

  void Append(std::span<const float> logits, int32_t picked);

  uint64_t steps() const { return digests_.size(); }
  int32_t picked(uint64_t step) const { return picked_[step]; }
  const Digest128& digest(uint64_t step) const { return digests_[step]; }
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
  uint64_t steps = 0;  // compared
  uint64_t differing_logits_steps = 0;
  uint64_t differing_token_steps = 0;
  std::optional<uint64_t> first_logits_step;  // of the reference, the first that differs
  std::optional<uint64_t> first_token_step;
  // Nullopt when a differing step's logits weren't kept.
  std::optional<uint64_t> differing_bits = 0;
};

// Steps [first, first + other.steps()) of `reference` against all of `other`. The reference must
// have that many.
TraceComparison CompareTraces(const LogitsTrace& reference, uint64_t first,
                              const LogitsTrace& other);

}  // namespace kvbed
