// How many parameters a shape has: embeddings, attention, MLP or experts, norms, output matrix.
// It doesn't know dtypes. Modules beside the decoder (multi-token prediction) are not counted.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/model/model_shape.h"

namespace kvbed {

// Of a valid shape. Nullopt at 2^64 and above.
std::optional<uint64_t> WeightParameters(const ModelShape& shape);

}  // namespace kvbed
