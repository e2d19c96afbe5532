#include "tools/shape_names.h"

#include <fmt/format.h>

#include <filesystem>

#include "backends/nearest_name.h"
#include "engine/model/known_shapes.h"
#include "engine/model/shape_config.h"
#include "tools/block_device.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kConfigBytesMax = uint64_t{1} << 20;

bool LooksLikeAPath(const std::string& text) {
  std::error_code error;
  return text.find('/') != std::string::npos || text.ends_with(".json") || fs::exists(text, error);
}

Status UnknownShape(const std::string& name) {
  const std::vector<std::string> names = ShapeNames();
  const std::string_view nearest = NearestName(name, {names.begin(), names.end()});
  return Status::InvalidArgument(fmt::format(
      "--shape '{}' is neither a known shape nor a config.json{}; known are {}", name,
      nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest), fmt::join(names, ", ")));
}

Result<std::string> ReadConfig(const std::string& file) {
  std::error_code error;
  if (!fs::exists(file, error)) {
    return Status::NotFound(
        fmt::format("--shape: there is no {}: give a known name or a config.json", file));
  }
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > kConfigBytesMax) {
    return Status::IoError(
        fmt::format("--shape: {} is no config.json: no regular file, or above 1 MiB", file));
  }
  const auto text = ReadSystemFile(file);
  if (!text) return Status::IoError(fmt::format("--shape: can't read {}", file));
  return *text;
}

}  // namespace

std::vector<std::string> ShapeNames() {
  std::vector<std::string> names;
  for (const ModelShape& shape : KnownShapes()) names.push_back(shape.name);
  return names;
}

Result<ModelShape> FindShape(const std::string& name_or_path) {
  for (const ModelShape& shape : KnownShapes()) {
    if (shape.name == name_or_path) return shape;
  }
  if (!LooksLikeAPath(name_or_path)) return UnknownShape(name_or_path);
  std::error_code error;
  const bool folder = fs::is_directory(name_or_path, error);
  const std::string file = folder ? name_or_path + "/config.json" : name_or_path;
  KVBED_ASSIGN_OR_RETURN(const std::string text, ReadConfig(file));
  auto shape = ParseShapeConfig(text);
  if (!shape.ok()) return shape.status().WithContext(file);
  shape->name = name_or_path;
  shape->source = file;
  return shape;
}

}  // namespace kvbed
