#include "verify/logits_trace.h"

#include <algorithm>
#include <bit>

#include "offload/bytes.h"
#include "offload/check.h"

namespace kvbed {

Digest128 DigestLogits(std::span<const float> logits) { return Xxh3_128(std::as_bytes(logits)); }

LogitsTrace::LogitsTrace(std::span<const LogitsStep> steps) : kept_bytes_max_(0) {
  for (const LogitsStep& step : steps) {
    digests_.push_back(step.logits);
    picked_.push_back(step.token);
    logits_.emplace_back();
  }
}

void LogitsTrace::Append(std::span<const float> logits, int32_t picked) {
  digests_.push_back(DigestLogits(logits));
  picked_.push_back(picked);
  logits_.emplace_back();
  if (kept_bytes_ + logits.size_bytes() > kept_bytes_max_) return;
  kept_bytes_ += logits.size_bytes();
  logits_.back().assign(logits.begin(), logits.end());
}

std::vector<LogitsStep> LogitsTrace::StepsFrom(uint64_t first) const {
  std::vector<LogitsStep> steps;
  for (uint64_t i = first; i < digests_.size(); ++i) steps.push_back({picked_[i], digests_[i]});
  return steps;
}

std::span<const float> LogitsTrace::logits(uint64_t step) const { return logits_[step]; }

TraceComparison CompareTraces(const LogitsTrace& reference, uint64_t first,
                              const LogitsTrace& other) {
  KVBED_CHECK(first <= reference.steps());
  TraceComparison result;
  result.reference_steps = reference.steps() - first;
  result.other_steps = other.steps();
  result.steps = std::min(result.reference_steps, result.other_steps);
  for (uint64_t i = 0; i < result.steps; ++i) {
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
