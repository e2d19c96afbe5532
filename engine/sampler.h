// Picks the next token from logits: greedy, or seeded with temperature, top-k and top-p. Its whole
// state is a SamplerState, so that a restored run goes on with the same random numbers.
#pragma once

#include <span>

#include "engine/model/model_config.h"
#include "offload/numeric_environment.h"
#include "offload/status.h"

namespace kvbed {

class Sampler {
 public:
  // Invalid argument for a negative temperature, or a top_p outside (0, 1].
  static Result<Sampler> Create(const SamplerState& state);

  // Greedy takes the lowest id among equal logits and uses no random number; otherwise one is used
  // a call: number `draws` of the counter-based generator of `seed`.
  TokenId Pick(std::span<const float> logits);

  const SamplerState& state() const { return state_; }

 private:
  explicit Sampler(const SamplerState& state) : state_(state) {}
  SamplerState state_;
};

}  // namespace kvbed
