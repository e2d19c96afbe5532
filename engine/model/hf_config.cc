#include "engine/model/hf_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/json_document.h"

namespace kvbed {
namespace {

Status CheckArchitecture(const Json& json) {
  std::string type;
  KVBED_RETURN_IF_ERROR(ReadField(json, "model_type", Need::kRequired, &type));
  if (type != "llama")
    return RefuseModel(
        fmt::format("model_type {} isn't supported (only \"llama\" is)", JsonForMessage(type)));
  const Json* architectures = FindField(json, "architectures");
  if (architectures == nullptr) return Status::Ok();
  const bool causal =
      architectures->is_array() && std::find(architectures->begin(), architectures->end(),
                                             Json("LlamaForCausalLM")) != architectures->end();
  if (causal) return Status::Ok();
  const Json& first = architectures->is_array() && !architectures->empty() ? architectures->front()
                                                                           : *architectures;
  return RefuseModel(fmt::format("architectures {} isn't supported (only \"LlamaForCausalLM\" is)",
                                 JsonForMessage(first)));
}

// Fields that, set, change what the model computes.
Status CheckUnsupported(const Json& json) {
  for (const std::string_view key : {"attention_bias", "mlp_bias"}) {
    bool value = false;
    KVBED_RETURN_IF_ERROR(ReadField(json, key, Need::kOptional, &value));
    if (value) return RefuseModel(fmt::format("{} is true, and biases aren't supported", key));
  }
  std::string activation = "silu";
  KVBED_RETURN_IF_ERROR(ReadField(json, "hidden_act", Need::kOptional, &activation));
  if (activation != "silu")
    return RefuseModel(fmt::format("hidden_act {} isn't supported (only \"silu\" is)",
                                   JsonForMessage(activation)));
  bool window_used = true;
  KVBED_RETURN_IF_ERROR(ReadField(json, "use_sliding_window", Need::kOptional, &window_used));
  const Json* window = FindField(json, "sliding_window");
  if (window != nullptr && window_used)
    return RefuseModel(fmt::format("sliding_window is {}, and only full attention is supported",
                                   JsonForMessage(*window)));
  if (const Json* types = FindField(json, "layer_types"))
    for (const Json& type : *types)
      if (type != "full_attention")
        return RefuseModel(fmt::format("layer_types holds {}, and only full attention is supported",
                                       JsonForMessage(type)));
  double rotary_share = 1;
  KVBED_RETURN_IF_ERROR(ReadField(json, "partial_rotary_factor", Need::kOptional, &rotary_share));
  if (rotary_share != 1)
    return RefuseModel(
        fmt::format("partial_rotary_factor is {}, and only 1 is supported", rotary_share));
  if (const Json* quantization = FindField(json, "quantization_config")) {
    std::string method = "unknown";
    KVBED_RETURN_IF_ERROR(ReadField(*quantization, "quant_method", Need::kOptional, &method));
    return RefuseModel(
        fmt::format("quantization_config with quant_method {} isn't supported "
                    "(use the unquantised checkpoint or a GGUF file)",
                    JsonForMessage(method)));
  }
  return Status::Ok();
}

Status ReadLlama3(const Json& rope, RopeScaling* scaling) {
  scaling->kind = RopeKind::kLlama3;
  KVBED_RETURN_IF_ERROR(ReadField(rope, "factor", Need::kRequired, &scaling->factor));
  KVBED_RETURN_IF_ERROR(
      ReadField(rope, "low_freq_factor", Need::kRequired, &scaling->low_freq_factor));
  KVBED_RETURN_IF_ERROR(
      ReadField(rope, "high_freq_factor", Need::kRequired, &scaling->high_freq_factor));
  return ReadField(rope, "original_max_position_embeddings", Need::kRequired,
                   &scaling->original_max_position);
}

// `rope` is transformers 4's rope_scaling or transformers 5's rope_parameters.
Status ReadRopeObject(std::string_view key, const Json& rope, ModelConfig* config) {
  if (!rope.is_object())
    return Status::Corruption(
        fmt::format("{} is {}, must be an object", key, JsonForMessage(rope)));
  for (const auto& [name, value] : rope.items())
    if (value.is_object())
      return RefuseModel(fmt::format("{} is given by layer type ({})", key, JsonForMessage(name)));
  std::string type;
  KVBED_RETURN_IF_ERROR(ReadField(rope, "type", Need::kOptional, &type));
  KVBED_RETURN_IF_ERROR(ReadField(rope, "rope_type", Need::kOptional, &type));
  if (type.empty() && FindField(rope, "factor") != nullptr)
    return Status::Corruption(fmt::format("{} has a factor and no rope_type", key));
  double rotary_share = 1;
  KVBED_RETURN_IF_ERROR(ReadField(rope, "partial_rotary_factor", Need::kOptional, &rotary_share));
  if (rotary_share != 1)
    return RefuseModel(
        fmt::format("partial_rotary_factor is {}, and only 1 is supported", rotary_share));
  if (type == "llama3")
    KVBED_RETURN_IF_ERROR(ReadLlama3(rope, &config->rope_scaling));
  else if (!type.empty() && type != "default")
    return RefuseModel(
        fmt::format("rope type {} isn't supported (only \"default\" and \"llama3\" are)",
                    JsonForMessage(type)));
  double theta = config->rope_theta;
  KVBED_RETURN_IF_ERROR(ReadField(rope, "rope_theta", Need::kOptional, &theta));
  config->rope_theta = theta;
  return Status::Ok();
}

Status ReadRope(const Json& json, ModelConfig* config) {
  // LlamaConfig's default, which configs older than the field rely on.
  config->rope_theta = 10000;
  KVBED_RETURN_IF_ERROR(ReadField(json, "rope_theta", Need::kOptional, &config->rope_theta));
  const ModelConfig plain = *config;
  const Json* scaling = FindField(json, "rope_scaling");
  const Json* parameters = FindField(json, "rope_parameters");
  if (scaling != nullptr) KVBED_RETURN_IF_ERROR(ReadRopeObject("rope_scaling", *scaling, config));
  if (parameters == nullptr) return Status::Ok();
  ModelConfig newer = plain;
  KVBED_RETURN_IF_ERROR(ReadRopeObject("rope_parameters", *parameters, &newer));
  if (scaling != nullptr && !(newer.rope_scaling == config->rope_scaling))
    return Status::Corruption("rope_scaling and rope_parameters contradict each other");
  if (FindField(json, "rope_theta") != nullptr && newer.rope_theta != plain.rope_theta)
    return Status::Corruption(
        fmt::format("rope_theta is {} and in rope_parameters {}: they contradict each other",
                    plain.rope_theta, newer.rope_theta));
  *config = newer;
  return Status::Ok();
}

// One id or a list of them.
Status ReadIds(const Json& json, std::string_view key, std::vector<TokenId>* out) {
  const Json* value = FindField(json, key);
  if (value == nullptr) return Status::Ok();
  std::vector<TokenId> ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& id : list) {
    // -1 stands for "none" in some files.
    if (id.is_number_integer() && id == -1) continue;
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
      return Status::Corruption(
          fmt::format("{} is {}, must be a token id", key, JsonForMessage(id)));
    ids.push_back(id.get<TokenId>());
  }
  *out = std::move(ids);
  return Status::Ok();
}

Status ReadShape(const Json& json, ModelConfig* config) {
  KVBED_RETURN_IF_ERROR(ReadField(json, "hidden_size", Need::kRequired, &config->hidden));
  KVBED_RETURN_IF_ERROR(ReadField(json, "num_hidden_layers", Need::kRequired, &config->layers));
  KVBED_RETURN_IF_ERROR(ReadField(json, "num_attention_heads", Need::kRequired, &config->heads));
  config->kv_heads = config->heads;
  KVBED_RETURN_IF_ERROR(ReadField(json, "num_key_value_heads", Need::kOptional, &config->kv_heads));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "intermediate_size", Need::kRequired, &config->intermediate));
  KVBED_RETURN_IF_ERROR(ReadField(json, "vocab_size", Need::kRequired, &config->vocab));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "max_position_embeddings", Need::kOptional, &config->max_position));
  KVBED_RETURN_IF_ERROR(ReadField(json, "head_dim", Need::kOptional, &config->head_dim));
  if (config->head_dim != 0 || config->heads == 0) return Status::Ok();
  if (config->hidden % config->heads != 0)
    return Status::Corruption(
        fmt::format("hidden_size {} is no multiple of num_attention_heads {}, and head_dim isn't "
                    "given",
                    config->hidden, config->heads));
  config->head_dim = config->hidden / config->heads;
  return Status::Ok();
}

}  // namespace

Result<ModelConfig> ParseHfConfig(std::string_view text) {
  KVBED_ASSIGN_OR_RETURN(const Json json, ParseJson(AsBytes(text)));
  if (!json.is_object()) return Status::Corruption("the JSON is no object");
  KVBED_RETURN_IF_ERROR(CheckArchitecture(json));
  KVBED_RETURN_IF_ERROR(CheckUnsupported(json));
  ModelConfig config;
  config.architecture = "llama";
  KVBED_RETURN_IF_ERROR(ReadShape(json, &config));
  double eps = 0;
  KVBED_RETURN_IF_ERROR(ReadField(json, "rms_norm_eps", Need::kRequired, &eps));
  config.rms_norm_eps = static_cast<float>(eps);
  KVBED_RETURN_IF_ERROR(ReadRope(json, &config));
  KVBED_RETURN_IF_ERROR(
      ReadField(json, "tie_word_embeddings", Need::kOptional, &config.tie_word_embeddings));
  KVBED_RETURN_IF_ERROR(ReadIds(json, "bos_token_id", &config.bos_ids));
  KVBED_RETURN_IF_ERROR(ReadIds(json, "eos_token_id", &config.eos_ids));
  // The file's fault, not the caller's.
  if (const Status status = ValidateModelConfig(config); !status.ok())
    return Status::Corruption(status.message());
  return config;
}

Result<std::vector<TokenId>> ParseGenerationEosIds(std::string_view text) {
  KVBED_ASSIGN_OR_RETURN(const Json json, ParseJson(AsBytes(text)));
  std::vector<TokenId> ids;
  KVBED_RETURN_IF_ERROR(ReadIds(json, "eos_token_id", &ids));
  return ids;
}

}  // namespace kvbed
