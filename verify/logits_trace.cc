#include "verify/logits_trace.h"

#include <algorithm>
#include <bit>

namespace kvbed {
namespace {

uint64_t DifferingBits(std::span<const float> a, std::span<const float> b) {
  uint64_t bits = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t difference = std::bit_cast<uint32_t>(a[i]) ^ std::bit_cast<uint32_t>(b[i]);
    bits += static_cast<uint64_t>(std::popcount(difference));
  }
  return bits;
}

}  // namespace

void LogitsTrace::Add(std::span<const float> logits, int32_t token) {
  KVBED_CHECK(!logits.empty() && (steps_.empty() || vocab_ == logits.size()));
  vocab_ = logits.size();
  steps_.push_back({token, Xxh3_128(std::as_bytes(logits))});
  if (has_logits()) logits_.insert(logits_.end(), logits.begin(), logits.end());
}

std::span<const float> LogitsTrace::logits(size_t step) const {
  KVBED_CHECK(step < steps_.size());
  if (!has_logits()) return {};
  return std::span(logits_).subspan(step * vocab_, vocab_);
}

TraceComparison CompareTraces(const LogitsTrace& expected, uint64_t first_step,
                              const LogitsTrace& actual) {
  KVBED_CHECK(first_step <= expected.steps().size());
  TraceComparison comparison;
  comparison.expected_steps = expected.steps().size() - first_step;
  comparison.actual_steps = actual.steps().size();
  comparison.steps = std::min(comparison.expected_steps, comparison.actual_steps);
  uint64_t bits = 0;
  bool bits_known = true;
  for (uint64_t i = 0; i < comparison.steps; ++i) {
    const LogitsStep& want = expected.steps()[first_step + i];
    const LogitsStep& have = actual.steps()[i];
    if (want.token != have.token) {
      ++comparison.differing_token_steps;
      if (!comparison.first_differing_token_step) comparison.first_differing_token_step = i;
    }
    if (want.logits == have.logits) continue;
    ++comparison.differing_logits_steps;
    if (!comparison.first_differing_logits_step) comparison.first_differing_logits_step = i;
    const auto want_logits = expected.logits(first_step + i), have_logits = actual.logits(i);
    const bool both = !want_logits.empty() && want_logits.size() == have_logits.size();
    bits_known = bits_known && both;
    if (both) bits += DifferingBits(want_logits, have_logits);
  }
  if (bits_known) comparison.differing_bits = bits;
  return comparison;
}

}  // namespace kvbed
