#include "engine/model/known_shapes.h"

#include <string>

namespace kvbed {
namespace {

struct KnownRow {
  const char* name;
  const char* source;
  const char* model_type;
  uint32_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, max_position;
  double rope_theta;
  bool tied;
};

// clang-format off
constexpr KnownRow kKnownRows[] = {
    // name, source, model_type,
    //     hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, max_position, theta, tied
    {"smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct", "llama",
           576,  30,   9,   3,  64,  1536,  49152,   8192,    100000, true},
    {"smollm2-360m", "HuggingFaceTB/SmolLM2-360M-Instruct", "llama",
           960,  32,  15,   5,  64,  2560,  49152,   8192,    100000, true},
    {"smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct", "llama",
          2048,  24,  32,  32,  64,  8192,  49152,   8192,    130000, true},
    {"llama2-7b", "meta-llama/Llama-2-7b-hf", "llama",
          4096,  32,  32,  32, 128, 11008,  32000,   4096,     10000, false},
    {"llama2-70b", "meta-llama/Llama-2-70b-hf", "llama",
          8192,  80,  64,   8, 128, 28672,  32000,   4096,     10000, false},
    {"llama3-8b", "meta-llama/Meta-Llama-3-8B", "llama",
          4096,  32,  32,   8, 128, 14336, 128256,   8192,    500000, false},
    {"llama3-70b", "meta-llama/Meta-Llama-3-70B", "llama",
          8192,  80,  64,   8, 128, 28672, 128256,   8192,    500000, false},
    {"llama3.1-8b", "meta-llama/Llama-3.1-8B", "llama",
          4096,  32,  32,   8, 128, 14336, 128256, 131072,    500000, false},
    {"llama3.1-70b", "meta-llama/Llama-3.1-70B", "llama",
          8192,  80,  64,   8, 128, 28672, 128256, 131072,    500000, false},
    {"llama3.1-405b", "meta-llama/Llama-3.1-405B", "llama",
         16384, 126, 128,   8, 128, 53248, 128256, 131072,    500000, false},
    {"llama3.2-1b", "meta-llama/Llama-3.2-1B", "llama",
          2048,  16,  32,   8,  64,  8192, 128256, 131072,    500000, true},
    {"llama3.2-3b", "meta-llama/Llama-3.2-3B", "llama",
          3072,  28,  24,   8, 128,  8192, 128256, 131072,    500000, true},
    {"qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B", "qwen2",
           896,  24,  14,   2,  64,  4864, 151936,  32768,   1000000, true},
    {"qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B", "qwen2",
          1536,  28,  12,   2, 128,  8960, 151936, 131072,   1000000, true},
    {"qwen2.5-3b", "Qwen/Qwen2.5-3B", "qwen2",
          2048,  36,  16,   2, 128, 11008, 151936,  32768,   1000000, true},
    {"qwen2.5-7b", "Qwen/Qwen2.5-7B", "qwen2",
          3584,  28,  28,   4, 128, 18944, 152064, 131072,   1000000, false},
    {"qwen2.5-14b", "Qwen/Qwen2.5-14B", "qwen2",
          5120,  48,  40,   8, 128, 13824, 152064, 131072,   1000000, false},
    {"qwen2.5-32b", "Qwen/Qwen2.5-32B", "qwen2",
          5120,  64,  40,   8, 128, 27648, 152064, 131072,   1000000, false},
    {"qwen2.5-72b", "Qwen/Qwen2.5-72B", "qwen2",
          8192,  80,  64,   8, 128, 29568, 152064, 131072,   1000000, false},
    {"qwen3-8b", "Qwen/Qwen3-8B", "qwen3",
          4096,  36,  32,   8, 128, 12288, 151936,  40960,   1000000, false},
    {"qwen3-32b", "Qwen/Qwen3-32B", "qwen3",
          5120,  64,  64,   8, 128, 25600, 151936,  40960,   1000000, false},
    {"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", "qwen3_moe",
          2048,  48,  32,   4, 128,  6144, 151936,  40960,   1000000, false},
    {"mistral-7b-v0.1", "mistralai/Mistral-7B-v0.1", "mistral",
          4096,  32,  32,   8, 128, 14336,  32000,  32768,     10000, false},
    {"mistral-7b-v0.3", "mistralai/Mistral-7B-v0.3", "mistral",
          4096,  32,  32,   8, 128, 14336,  32768,  32768,   1000000, false},
    {"mistral-small-24b", "mistralai/Mistral-Small-24B-Base-2501", "mistral",
          5120,  40,  32,   8, 128, 32768, 131072,  32768, 100000000, false},
    {"mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1", "mixtral",
          4096,  32,  32,   8, 128, 14336,  32000,  32768,   1000000, false},
    {"deepseek-v2-lite", "deepseek-ai/DeepSeek-V2-Lite", "deepseek_v2",
          2048,  27,  16,  16,   0, 10944, 102400, 163840,     10000, false},
    {"deepseek-v3", "deepseek-ai/DeepSeek-V3", "deepseek_v3",
          7168,  61, 128, 128,   0, 18432, 129280, 163840,     10000, false},
};
// clang-format on

constexpr LatentAttention kDeepSeekLatent = {.q_lora_rank = 0,
                                             .kv_lora_rank = 512,
                                             .qk_nope_head_dim = 128,
                                             .qk_rope_head_dim = 64,
                                             .v_head_dim = 128};

// What the table has no columns for.
void AddKnownParts(ModelShape& shape) {
  const std::string& name = shape.name;
  shape.qkv_bias = shape.model_type == "qwen2";
  shape.qk_norm = shape.model_type == "qwen3" || shape.model_type == "qwen3_moe";
  // The later versions have none.
  if (name == "mistral-7b-v0.1") shape.window = SlidingWindow{.tokens = 4096, .layers = 32};
  if (name == "mixtral-8x7b") shape.experts = Experts{.count = 8, .intermediate = 14336};
  if (name == "qwen3-30b-a3b") shape.experts = Experts{.count = 128, .intermediate = 768};
  if (name == "deepseek-v2-lite") {
    shape.latent = kDeepSeekLatent;
    shape.experts = Experts{.count = 64, .intermediate = 1408, .shared = 2, .dense_layers = 1};
  }
  if (name == "deepseek-v3") {
    shape.latent = kDeepSeekLatent;
    shape.latent->q_lora_rank = 1536;
    shape.experts = Experts{
        .count = 256, .intermediate = 2048, .shared = 1, .dense_layers = 3, .selection_bias = true};
  }
}

ModelShape ShapeOfKnownRow(const KnownRow& row) {
  ModelShape shape;
  shape.name = row.name;
  shape.source = row.source;
  shape.model_type = row.model_type;
  shape.hidden = row.hidden;
  shape.layers = row.layers;
  shape.heads = row.heads;
  shape.kv_heads = row.kv_heads;
  shape.head_dim = row.head_dim;
  shape.intermediate = row.intermediate;
  shape.vocab = row.vocab;
  shape.max_position = row.max_position;
  shape.rope_theta = row.rope_theta;
  shape.tie_word_embeddings = row.tied;
  AddKnownParts(shape);
  return shape;
}

}  // namespace

std::vector<ModelShape> KnownShapes() {
  std::vector<ModelShape> shapes;
  for (const KnownRow& row : kKnownRows) shapes.push_back(ShapeOfKnownRow(row));
  return shapes;
}

}  // namespace kvbed
