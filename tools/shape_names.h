// Finds the shape that --shape names: a well-known model's, or that of a config.json.
// It doesn't know what is done with the shape.
#pragma once

#include <string>
#include <vector>

#include "engine/model/model_shape.h"
#include "offload/status.h"

namespace kvbed {

std::vector<std::string> ShapeNames();

// A name, or the path of a config.json or of its folder. Invalid argument, with all names and the
// nearest one, for neither; not found, I/O error, corruption or not supported for a file.
Result<ModelShape> FindShape(const std::string& name_or_path);

}  // namespace kvbed
