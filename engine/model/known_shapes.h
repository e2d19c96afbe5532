// The shapes of well-known models, from the config.json that their makers published.
// It doesn't look for a name that is nearly right: the command does.
#pragma once

#include <vector>

#include "engine/model/model_shape.h"

namespace kvbed {

// In the order in which they are listed to people: by family, then by size.
std::vector<ModelShape> KnownShapes();

}  // namespace kvbed
