#include "verify/logits_trace.h"

#include <bit>

#include "offload/bytes.h"
#include "offload/check.h"

namespace kvbed {

Digest128 DigestLogits(std::span<const float> logits) { return Xxh3_128(std::as_bytes(logits)); }

void LogitsTrace::Append(std::span<const float> logits, int32_t picked) {
  digests_.push_back(DigestLogits(logits));
  picked_.push_back(picked);
  logits_.emplace_back();
  if (kept_bytes_ + logits.size_bytes() > kept_bytes_max_) return;
  kept_bytes_ += logits.size_bytes();
  logits_.back().assign(logits.begin(), logits.end());
}

std::span<const float> LogitsTrace::logits(uint64_t step) const { return logits_[step]; }

TraceComparison CompareTraces(const LogitsTrace& reference, uint64_t first,
                              const LogitsTrace& other) {
  KVBED_CHECK(first + other.steps() <= reference.steps());
  TraceComparison result;
  result.steps = other.steps();
  for (uint64_t i = 0; i < other.steps(); ++i) {
    const uint64_t step = first + i;
    if (reference.picked(step) != other.picked(i)) {
      ++result.differing_token_steps;
      if (!result.first_token_step) result.first_token_step = step;
    }
    if (reference.digest(step) == other.digest(i)) continue;
    ++result.differing_logits_steps;
    if (!result.first_logits_step) result.first_logits_step = step;
    const std::span<const float> want = reference.logits(step), have = other.logits(i);
    if (want.size() != have.size() || want.empty()) {
      result.differing_bits.reset();
    } else if (result.differing_bits) {
      for (size_t k = 0; k < want.size(); ++k) {
        *result.differing_bits += static_cast<uint64_t>(
            std::popcount(std::bit_cast<uint32_t>(want[k]) ^ std::bit_cast<uint32_t>(have[k])));
      }
    }
  }
  return result;
}

}  // namespace kvbed
