#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "offload/check.h"

namespace kvbed {
namespace {

struct Candidate {
  double weight = 0;  // probability times a common factor
  TokenId id = 0;
};

// Heaviest first; the lowest id among equals.
bool Before(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
// 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// Number `draw` of the sequence of `seed`, in [0, 1). The seed is mixed first, so that sequences of
// neighbouring seeds aren't shifts of one another.
double Uniform(uint64_t seed, uint64_t draw) {
  constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;
  const uint64_t bits = Mix(Mix(seed + kGamma) + (draw + 1) * kGamma);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// The lowest id of the largest logit; NaN counts as the smallest.
TokenId LargestLogit(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
  }
  return static_cast<TokenId>(best);
}

double TotalWeight(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

// exp((logit - largest) / temperature) of each id; a logit that can't be picked weighs 0.
std::vector<Candidate> Weigh(std::span<const float> logits, double largest, double temperature) {
  std::vector<Candidate> candidates(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double logit = logits[i];
    candidates[i].id = static_cast<TokenId>(i);
    if (logit == largest) {
      candidates[i].weight = 1;
    } else if (logit < largest) {
      candidates[i].weight = std::exp((logit - largest) / temperature);
    }
  }
  return candidates;
}

void KeepTopK(std::vector<Candidate>& candidates, size_t top_k) {
  if (top_k == 0 || top_k >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(top_k - 1),
                   candidates.end(), Before);
  candidates.resize(top_k);
}

// Keeps the fewest heaviest that together have at least the share `top_p`. Few are needed of many,
// hence a heap and no sort.
void KeepTopP(std::vector<Candidate>& candidates, double top_p) {
  if (top_p >= 1) return;
  const double wanted = top_p * TotalWeight(candidates);
  const auto after = [](const Candidate& a, const Candidate& b) { return Before(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), after);
  double kept = 0;
  auto end = candidates.end();
  do {
    std::pop_heap(candidates.begin(), end, after);
    kept += (--end)->weight;
  } while (kept < wanted && end != candidates.begin());
  candidates.erase(candidates.begin(), end);
}

}  // namespace

Result<Sampler> Sampler::Create(const SamplerState& state) {
  if (!std::isfinite(state.temperature) || state.temperature < 0) {
    return Status::InvalidArgument("temperature " + std::to_string(state.temperature) +
                                   " is not a number from 0 on; 0 is greedy");
  }
  if (!(state.top_p > 0 && state.top_p <= 1)) {
    return Status::InvalidArgument("top-p " + std::to_string(state.top_p) +
                                   " is not above 0 and at most 1");
  }
  return Sampler(state);
}

TokenId Sampler::Pick(std::span<const float> logits) {
  KVBED_CHECK(!logits.empty());
  const TokenId greedy = LargestLogit(logits);
  if (state_.temperature == 0) return greedy;

  const double random = Uniform(state_.seed, state_.draws++);
  const double largest = logits[static_cast<size_t>(greedy)];
  if (std::isnan(largest)) return greedy;
  std::vector<Candidate> candidates = Weigh(logits, largest, state_.temperature);
  KeepTopK(candidates, state_.top_k);
  KeepTopP(candidates, state_.top_p);
  if (candidates.size() < logits.size()) {
    // In id order again, so that the pick doesn't depend on how the library partitions.
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  }

  const double threshold = random * TotalWeight(candidates);
  double passed = 0;
  for (const Candidate& candidate : candidates) {
    passed += candidate.weight;
    if (passed > threshold) return candidate.id;
  }
  return greedy;
}

}  // namespace kvbed
