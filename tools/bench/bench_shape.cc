#include "tools/bench/bench_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "backends/nearest_name.h"
#include "engine/model/hf_config.h"
#include "offload/digest.h"
#include "tools/block_device.h"

namespace kvbed {
namespace {

// From the models' config.json.
std::vector<BenchShape> KnownShapes() {
  ModelConfig small;  // HuggingFaceTB/SmolLM2-135M-Instruct
  small.architecture = "llama";
  small.hidden = 576;
  small.layers = 30;
  small.heads = 9;
  small.kv_heads = 3;
  small.head_dim = 64;
  small.intermediate = 1536;
  small.vocab = 49152;
  small.rope_theta = 100000;
  small.max_position = 8192;
  ModelConfig large;  // meta-llama/Meta-Llama-3-8B
  large.architecture = "llama";
  large.hidden = 4096;
  large.layers = 32;
  large.heads = 32;
  large.kv_heads = 8;
  large.head_dim = 128;
  large.intermediate = 14336;
  large.vocab = 128256;
  large.rope_theta = 500000;
  large.max_position = 8192;
  return {{"smollm2-135m", small}, {"llama3-8b", large}};
}

}  // namespace

KvGeometry BenchShape::Geometry(DType dtype, uint32_t block_tokens) const {
  return {.layers = config.layers,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .dtype = dtype,
          .block_tokens = block_tokens};
}

ModelDigests BenchShape::Digests() const {
  const std::string text =
      fmt::format("synthetic KV: {} layers, {} KV heads, head_dim {}, theta {}", config.layers,
                  config.kv_heads, config.head_dim, config.rope_theta);
  ModelDigests digests;
  digests.config = Xxh3_128(AsBytes(text));
  return digests;
}

std::vector<std::string> BenchShapeNames() {
  std::vector<std::string> names;
  for (const BenchShape& shape : KnownShapes()) names.push_back(shape.name);
  return names;
}

Result<BenchShape> FindBenchShape(const std::string& name_or_path) {
  for (const BenchShape& shape : KnownShapes()) {
    if (shape.name == name_or_path) return shape;
  }
  const bool path = name_or_path.find('/') != std::string::npos ||
                    name_or_path.ends_with(".json") || std::filesystem::exists(name_or_path);
  if (!path) {
    const std::vector<std::string> names = BenchShapeNames();
    const std::string_view nearest = NearestName(name_or_path, {names.begin(), names.end()});
    return Status::InvalidArgument(
        fmt::format("--shape takes {} or the path of a config.json, not '{}'{}",
                    fmt::join(BenchShapeNames(), ", "), name_or_path,
                    nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
  }
  std::string file = name_or_path;
  if (std::filesystem::is_directory(file)) file += "/config.json";
  constexpr uint64_t kConfigBytesMax = uint64_t{1} << 20;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    return Status::NotFound(fmt::format("--shape: there is no {}", file));
  }
  if (!std::filesystem::is_regular_file(file, error) ||
      std::filesystem::file_size(file, error) > kConfigBytesMax) {
    return Status::IoError(
        fmt::format("--shape: {} is no config.json: no regular file, or above 1 MiB", file));
  }
  const auto text = ReadSystemFile(file);
  if (!text) return Status::IoError(fmt::format("--shape: can't read {}", file));
  auto config = ParseHfConfig(*text);
  if (!config.ok()) return config.status().WithContext(file);
  return BenchShape{name_or_path, std::move(*config)};
}

}  // namespace kvbed
