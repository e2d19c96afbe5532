#include "engine/model/shape_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "engine/model/json_document.h"

namespace kvbed {
namespace {

// Where the sizes of a model_type differ from Llama's. Source: the configuration and modeling files
// of transformers 4 of each type.
struct ShapeFamily {
  std::string_view model_type;
  bool qkv_bias = false;  // always, without a field that says so
  bool qk_norm = false;
  bool window = false;  // sliding_window is understood
  // A config without sliding_window means this many tokens, and null means none.
  uint32_t window_when_absent = 0;
  bool kv_heads_when_absent = false;  // as many as query heads
  bool derived_head_dim = true;       // hidden_size / num_attention_heads
};

constexpr ShapeFamily kFamilies[] = {
    {.model_type = "llama", .kv_heads_when_absent = true},
    {.model_type = "mistral", .window = true, .window_when_absent = 4096},
    {.model_type = "mixtral", .window = true},
    {.model_type = "qwen2", .qkv_bias = true, .window = true},
    {.model_type = "qwen3", .qk_norm = true, .window = true, .derived_head_dim = false},
    {.model_type = "qwen3_moe", .qk_norm = true, .window = true, .derived_head_dim = false},
    {.model_type = "deepseek_v2", .kv_heads_when_absent = true},
    {.model_type = "deepseek_v3", .kv_heads_when_absent = true},
};

Status RefuseShape(std::string_view what) {
  return Status::NotSupported(fmt::format("{}; kvbed can't size this model truly", what));
}

Result<const ShapeFamily*> FindFamily(const Json& json) {
  std::string type;
  KVBED_RETURN_IF_ERROR(ReadField(json, "model_type", Need::kRequired, &type));
  const auto* found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const auto& family) { return family.model_type == type; });
  if (found != std::end(kFamilies)) return found;
  std::vector<std::string_view> known;
  for (const ShapeFamily& family : kFamilies) known.push_back(family.model_type);
  return RefuseShape(fmt::format("model_type {} isn't known (these are: {})", JsonForMessage(type),
                                 fmt::join(known, ", ")));
}

Status ReadShapeHeads(const Json& json, const ShapeFamily& family, ModelShape* shape) {
  KVBED_RETURN_IF_ERROR(ReadField(json, "num_attention_heads", Need::kRequired, &shape->heads));
  shape->kv_heads = shape->heads;
  KVBED_RETURN_IF_ERROR(ReadField(json, "num_key_value_heads",
                                  family.kv_heads_when_absent ? Need::kOptional : Need::kRequired,
                                  &shape->kv_heads));
  if (shape->latent) return Status::Ok();
  KVBED_RETURN_IF_ERROR(ReadField(json, "head_dim",
                                  family.derived_head_dim ? Need::kOptional : Need::kRequired,
                                  &shape->head_dim));
  if (shape->head_dim != 0 || FindField(json, "head_dim") != nullptr || shape->heads == 0)
    return Status::Ok();
  if (shape->hidden % shape->heads != 0)
    return Status::Corruption(
        fmt::format("hidden_size {} is no multiple of num_attention_heads {}, and head_dim isn't "
                    "given",
                    shape->hidden, shape->heads));
  shape->head_dim = shape->hidden / shape->heads;
  return Status::Ok();
}

Status ReadSizes(const Json& json, ModelShape* shape) {
  KVBED_RETURN_IF_ERROR(ReadField(json, "hidden_size", Need::kRequired, &shape->hidden));
  KVBED_RETURN_IF_ERROR(ReadField(json, "num_hidden_layers", Need::kRequired, &shape->layers));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "intermediate_size", Need::kRequired, &shape->intermediate));
  KVBED_RETURN_IF_ERROR(ReadField(json, "vocab_size", Need::kRequired, &shape->vocab));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "max_position_embeddings", Need::kOptional, &shape->max_position));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "tie_word_embeddings", Need::kOptional, &shape->tie_word_embeddings));
  KVBED_RETURN_IF_ERROR(ReadField(json, "rope_theta", Need::kOptional, &shape->rope_theta));
  // Where transformers 5 keeps it.
  if (const Json* rope = FindField(json, "rope_parameters"))
    KVBED_RETURN_IF_ERROR(ReadField(*rope, "rope_theta", Need::kOptional, &shape->rope_theta));
  return Status::Ok();
}

Status ReadBiases(const Json& json, const ShapeFamily& family, ModelShape* shape) {
  bool attention_bias = false;
  KVBED_RETURN_IF_ERROR(ReadField(json, "attention_bias", Need::kOptional, &attention_bias));
  KVBED_RETURN_IF_ERROR(ReadField(json, "mlp_bias", Need::kOptional, &shape->mlp_bias));
  shape->qkv_bias = family.qkv_bias || attention_bias;
  shape->output_bias = attention_bias;
  if (attention_bias && shape->latent) return RefuseShape("attention_bias with latent attention");
  return Status::Ok();
}

// The tokens of sliding_window; 0 for no window.
Result<uint32_t> WindowTokens(const Json& json, const ShapeFamily& family) {
  bool used = true;
  KVBED_RETURN_IF_ERROR(ReadField(json, "use_sliding_window", Need::kOptional, &used));
  const bool opt_in = family.model_type.starts_with("qwen");
  if (!used || (opt_in && FindField(json, "use_sliding_window") == nullptr)) return uint32_t{0};
  uint32_t tokens = json.contains("sliding_window") ? 0 : family.window_when_absent;
  const bool given = FindField(json, "sliding_window") != nullptr;
  KVBED_RETURN_IF_ERROR(ReadField(json, "sliding_window", Need::kOptional, &tokens));
  if (given && tokens == 0)
    return Status::Corruption("sliding_window is 0, must be null or at least 1");
  return tokens;
}

// How many layers layer_types says have the window.
Result<uint32_t> WindowedLayersByType(const Json& types, const ModelShape& shape) {
  if (!types.is_array() || types.size() != shape.layers)
    return Status::Corruption(
        fmt::format("layer_types must be a list of num_hidden_layers = {}", shape.layers));
  uint32_t layers = 0;
  for (const Json& type : types) {
    if (type != "full_attention" && type != "sliding_attention")
      return RefuseShape(fmt::format("layer_types holds {}", JsonForMessage(type)));
    if (type == "sliding_attention") ++layers;
  }
  return layers;
}

// Qwen's first max_window_layers layers have full attention.
Result<uint32_t> WindowedLayers(const Json& json, const ShapeFamily& family,
                                const ModelShape& shape) {
  if (const Json* types = FindField(json, "layer_types"))
    return WindowedLayersByType(*types, shape);
  if (!family.model_type.starts_with("qwen")) return shape.layers;
  uint32_t full = 0;
  KVBED_RETURN_IF_ERROR(ReadField(json, "max_window_layers", Need::kRequired, &full));
  return shape.layers - std::min(full, shape.layers);
}

Status ReadWindow(const Json& json, const ShapeFamily& family, ModelShape* shape) {
  if (!family.window) {
    if (const Json* window = FindField(json, "sliding_window"))
      return RefuseShape(fmt::format("sliding_window is {} in a model_type {}",
                                     JsonForMessage(*window), family.model_type));
  }
  KVBED_ASSIGN_OR_RETURN(const uint32_t tokens, WindowTokens(json, family));
  if (tokens == 0) {
    const Json* types = FindField(json, "layer_types");
    if (types == nullptr) return Status::Ok();
    KVBED_ASSIGN_OR_RETURN(const uint32_t layers, WindowedLayersByType(*types, *shape));
    if (layers == 0) return Status::Ok();
    return Status::Corruption("layer_types holds sliding_attention, and no sliding_window is used");
  }
  KVBED_ASSIGN_OR_RETURN(const uint32_t layers, WindowedLayers(json, family, *shape));
  if (layers > 0) shape->window = SlidingWindow{.tokens = tokens, .layers = layers};
  return Status::Ok();
}

Status ReadMixtralExperts(const Json& json, ModelShape* shape) {
  Experts experts{.count = 0, .intermediate = shape->intermediate};
  KVBED_RETURN_IF_ERROR(ReadField(json, "num_local_experts", Need::kRequired, &experts.count));
  shape->experts = experts;
  return Status::Ok();
}

Status ReadQwenExperts(const Json& json, ModelShape* shape) {
  Experts experts;
  KVBED_RETURN_IF_ERROR(ReadField(json, "num_experts", Need::kRequired, &experts.count));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "moe_intermediate_size", Need::kRequired, &experts.intermediate));
  uint32_t step = 1;
  KVBED_RETURN_IF_ERROR(ReadField(json, "decoder_sparse_step", Need::kOptional, &step));
  if (step != 1) return RefuseShape(fmt::format("decoder_sparse_step is {}", step));
  const Json* plain = FindField(json, "mlp_only_layers");
  if (plain != nullptr && !plain->empty()) return RefuseShape("mlp_only_layers isn't empty");
  shape->experts = experts;
  return Status::Ok();
}

Status ReadDeepSeekExperts(const Json& json, ModelShape* shape) {
  if (FindField(json, "n_routed_experts") == nullptr) return Status::Ok();
  Experts experts;
  KVBED_RETURN_IF_ERROR(ReadField(json, "n_routed_experts", Need::kRequired, &experts.count));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "moe_intermediate_size", Need::kRequired, &experts.intermediate));
  KVBED_RETURN_IF_ERROR(ReadField(json, "n_shared_experts", Need::kOptional, &experts.shared));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "first_k_dense_replace", Need::kRequired, &experts.dense_layers));
  uint32_t frequency = 1;
  KVBED_RETURN_IF_ERROR(ReadField(json, "moe_layer_freq", Need::kOptional, &frequency));
  if (frequency != 1) return RefuseShape(fmt::format("moe_layer_freq is {}", frequency));
  // V3 picks experts with a learned bias.
  experts.selection_bias = shape->model_type == "deepseek_v3";
  shape->experts = experts;
  return Status::Ok();
}

Status ReadLatent(const Json& json, ModelShape* shape) {
  LatentAttention latent;
  KVBED_RETURN_IF_ERROR(ReadField(json, "q_lora_rank", Need::kOptional, &latent.q_lora_rank));
  KVBED_RETURN_IF_ERROR(ReadField(json, "kv_lora_rank", Need::kRequired, &latent.kv_lora_rank));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "qk_nope_head_dim", Need::kRequired, &latent.qk_nope_head_dim));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "qk_rope_head_dim", Need::kRequired, &latent.qk_rope_head_dim));
  KVBED_RETURN_IF_ERROR(ReadField(json, "v_head_dim", Need::kRequired, &latent.v_head_dim));
  // An indexer's keys are kept too, beside the latent rows (DeepSeek-V3.2).
  if (FindField(json, "index_head_dim") != nullptr) return RefuseShape("index_head_dim is given");
  shape->latent = latent;
  return Status::Ok();
}

Status ReadParts(const Json& json, ModelShape* shape) {
  if (shape->model_type == "mixtral") return ReadMixtralExperts(json, shape);
  if (shape->model_type == "qwen3_moe") return ReadQwenExperts(json, shape);
  if (!shape->model_type.starts_with("deepseek")) {
    // Forks of Llama-like types carry parts that these types don't have.
    for (const std::string_view key :
         {"kv_lora_rank", "num_local_experts", "num_experts", "n_routed_experts"})
      if (FindField(json, key) != nullptr)
        return RefuseShape(fmt::format("{} is given in a model_type {}", key, shape->model_type));
    return Status::Ok();
  }
  KVBED_RETURN_IF_ERROR(ReadLatent(json, shape));
  return ReadDeepSeekExperts(json, shape);
}

}  // namespace

Result<ModelShape> ParseShapeConfig(std::string_view text) {
  KVBED_ASSIGN_OR_RETURN(const Json json, ParseJson(AsBytes(text)));
  if (!json.is_object()) return Status::Corruption("the JSON is no object");
  KVBED_ASSIGN_OR_RETURN(const ShapeFamily* family, FindFamily(json));
  ModelShape shape;
  shape.model_type = family->model_type;
  shape.qk_norm = family->qk_norm;
  KVBED_RETURN_IF_ERROR(ReadSizes(json, &shape));
  KVBED_RETURN_IF_ERROR(ReadParts(json, &shape));
  KVBED_RETURN_IF_ERROR(ReadShapeHeads(json, *family, &shape));
  KVBED_RETURN_IF_ERROR(ReadBiases(json, *family, &shape));
  KVBED_RETURN_IF_ERROR(ReadWindow(json, *family, &shape));
  // The file's fault, not the caller's.
  if (const Status status = ValidateModelShape(shape); !status.ok())
    return Status::Corruption(status.message());
  return shape;
}

}  // namespace kvbed
