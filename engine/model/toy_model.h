// Toy models: Llama shapes with seeded random weights that are computed when read, for work that
// needs real KV but no real text.
// It doesn't know files. A toy has no tokenizer.
#pragma once

#include <string_view>

#include "engine/model/model_config.h"
#include "engine/model/weights.h"
#include "offload/status.h"

namespace kvbed {

struct ToyModel {
  ModelConfig config;
  TensorMap tensors;
};

bool IsToySpec(std::string_view spec);

// "toy:8m" or "toy:62m", varied by "?key=value&..." with the keys vocab, hidden, layers, heads,
// kv_heads, head_dim (else hidden / heads), mlp, rope_theta, seed. Invalid argument, naming the
// right keys or the number at fault, otherwise. The same spec gives the same bits on every
// platform.
Result<ToyModel> MakeToy(std::string_view spec);

}  // namespace kvbed
