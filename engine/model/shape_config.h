// Reads the shape of a model from a Hugging Face config.json, also of models that kvbed can't run.
// It doesn't know rotary embeddings or activations. What would change a size and isn't understood
// is refused by name, so that no model is sized wrong in silence.
#pragma once

#include <string_view>

#include "engine/model/model_shape.h"
#include "offload/status.h"

namespace kvbed {

// `text` is the file's content; messages don't name the file, and name and source stay empty. Not
// supported for a model_type, kind of layer or part that isn't understood; corruption for a field
// that is missing, of the wrong type or absurd.
Result<ModelShape> ParseShapeConfig(std::string_view text);

}  // namespace kvbed
