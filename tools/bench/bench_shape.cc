#include "tools/bench/bench_shape.h"

#include <fmt/format.h>

#include "offload/digest.h"
#include "tools/shape_names.h"

namespace kvbed {
namespace {

ModelConfig ConfigOf(const ModelShape& shape) {
  ModelConfig config;
  config.architecture = shape.model_type;
  config.hidden = shape.hidden;
  config.layers = shape.layers;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.intermediate = shape.intermediate;
  config.vocab = shape.vocab;
  config.rope_theta = shape.rope_theta;
  config.tie_word_embeddings = shape.tie_word_embeddings;
  config.max_position = shape.max_position;
  return config;
}

}  // namespace

KvGeometry BenchShape::Geometry(DType dtype, uint32_t block_tokens) const {
  return GeometryOf(config, dtype, block_tokens);
}

KvGeometry BenchShape::RankGeometry(DType dtype, uint32_t block_tokens,
                                    const KvSplit& split) const {
  KvGeometry geometry = Geometry(dtype, block_tokens);
  geometry.kv_heads = split.rank_kv_heads;
  return geometry;
}

ModelDigests BenchShape::Digests() const {
  const std::string text =
      fmt::format("synthetic KV: {} layers, {} KV heads, head_dim {}, theta {}", config.layers,
                  config.kv_heads, config.head_dim, config.rope_theta);
  ModelDigests digests;
  digests.config = Xxh3_128(AsBytes(text));
  return digests;
}

Status BenchShape::CheckContext(uint64_t ctx_tokens) const {
  const std::optional<SlidingWindow>& window = sizes.window;
  if (!window || ctx_tokens <= window->tokens) return Status::Ok();
  return Status::InvalidArgument(fmt::format(
      "{} keeps the last {} tokens only in {} of its {} layers (sliding window), and bench's "
      "records hold every token of every layer: take -c up to {}, or ask kvbed plan for sizes",
      name, window->tokens, window->layers, config.layers, window->tokens));
}

Result<BenchShape> FindBenchShape(const std::string& name_or_path) {
  KVBED_ASSIGN_OR_RETURN(const ModelShape shape, FindShape(name_or_path));
  if (shape.latent) {
    return Status::InvalidArgument(fmt::format(
        "bench's records hold K and V, and {} ({}) keeps one latent row a token instead "
        "(multi-head latent attention): take another shape, or ask kvbed plan for its sizes",
        shape.name, shape.model_type));
  }
  return BenchShape{shape.name, ConfigOf(shape), shape};
}

}  // namespace kvbed
