#include "engine/model/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/model/quantized_rows.h"
#include "engine/model/utf8.h"

// Keys and tensor names: gguf-py/gguf/constants.py of llama.cpp.

namespace kvbed {
namespace {

constexpr std::string_view kRopeFreqsName = "rope_freqs.weight";

struct NamePair {
  std::string_view gguf, hf;
};
constexpr std::array<NamePair, 3> kTopNames = {{{"token_embd.weight", kEmbeddingName},
                                                {"output_norm.weight", kFinalNormName},
                                                {"output.weight", kOutputName}}};
constexpr std::array<NamePair, 9> kLayerNames = {
    {{"attn_norm.weight", "input_layernorm.weight"},
     {"attn_q.weight", "self_attn.q_proj.weight"},
     {"attn_k.weight", "self_attn.k_proj.weight"},
     {"attn_v.weight", "self_attn.v_proj.weight"},
     {"attn_output.weight", "self_attn.o_proj.weight"},
     {"ffn_norm.weight", "post_attention_layernorm.weight"},
     {"ffn_gate.weight", "mlp.gate_proj.weight"},
     {"ffn_up.weight", "mlp.up_proj.weight"},
     {"ffn_down.weight", "mlp.down_proj.weight"}}};

// "blk.N.PART" to "model.layers.N.PART"; empty for a name that no Llama model has.
std::string HfName(std::string_view gguf) {
  for (const NamePair& pair : kTopNames)
    if (pair.gguf == gguf) return std::string(pair.hf);
  if (!gguf.starts_with("blk.")) return {};
  gguf.remove_prefix(4);
  uint32_t layer = 0;
  const auto [end, error] = std::from_chars(gguf.data(), gguf.data() + gguf.size(), layer);
  if (error != std::errc()) return {};
  gguf.remove_prefix(static_cast<size_t>(end - gguf.data()));
  for (const NamePair& pair : kLayerNames)
    if (gguf.starts_with('.') && gguf.substr(1) == pair.gguf)
      return LayerTensorName(layer, pair.hf);
  return {};
}

const GgufTensor* FindTensor(const GgufFile& file, std::string_view name) {
  for (const GgufTensor& tensor : file.tensors())
    if (tensor.name == name) return &tensor;
  return nullptr;
}

// Reads a count; `*out` stays when the key is absent and `required` is false.
Status ReadCount(const GgufFile& file, std::string_view key, bool required, uint32_t* out) {
  KVBED_ASSIGN_OR_RETURN(const auto number, file.WholeNumber(key));
  if (!number && required)
    return Status::Corruption(fmt::format("metadata key {} is missing", key));
  if (!number) return Status::Ok();
  if (*number > UINT32_MAX)
    return Status::Corruption(fmt::format("metadata key {} is {}: too large", key, *number));
  *out = static_cast<uint32_t>(*number);
  return Status::Ok();
}

Status CheckArchitecture(const GgufFile& file) {
  KVBED_ASSIGN_OR_RETURN(const auto architecture, file.Text("general.architecture"));
  if (!architecture) return Status::Corruption("metadata key general.architecture is missing");
  if (*architecture != "llama")
    return RefuseModel(
        fmt::format("general.architecture \"{}\" isn't supported (only \"llama\" is)",
                    PrintableText(*architecture)));
  uint32_t parts = 0;
  KVBED_RETURN_IF_ERROR(ReadCount(file, "split.count", false, &parts));
  if (parts > 1)
    return Status::NotSupported(
        fmt::format("the file is one of {} parts (split.count); join them with llama.cpp's "
                    "llama-gguf-split --merge",
                    parts));
  return Status::Ok();
}

// Under these two prefixes every key changes what attention computes, so one that isn't known here
// is refused.
constexpr std::array<std::string_view, 13> kKnownKeys = {
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.attention.layer_norm_rms_epsilon",
    "llama.attention.causal",
    "llama.rope.dimension_count",
    "llama.rope.freq_base",
    "llama.rope.scaling.type",
    "llama.rope.scaling.factor",
    "llama.rope.scaling.original_context_length",
    "llama.rope.scaling.finetuned",
    "llama.rope.scale_linear"};
constexpr std::array<std::string_view, 6> kRefusedKeys = {
    "llama.use_parallel_residual",  "llama.logit_scale",
    "llama.embedding_scale",        "llama.residual_scale",
    "llama.attn_logit_softcapping", "llama.final_logit_softcapping"};

Status CheckUnsupported(const GgufFile& file) {
  for (const auto& [key, value] : file.metadata()) {
    const bool sensitive = key.starts_with("llama.attention.") || key.starts_with("llama.rope.");
    const bool known = std::find(kKnownKeys.begin(), kKnownKeys.end(), key) != kKnownKeys.end();
    const bool refused =
        std::find(kRefusedKeys.begin(), kRefusedKeys.end(), key) != kRefusedKeys.end();
    if ((sensitive && !known) || refused)
      return RefuseModel(fmt::format("metadata key {} isn't supported", PrintableText(key)));
  }
  uint32_t experts = 0;
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.expert_count", false, &experts));
  if (experts > 0)
    return RefuseModel(fmt::format("llama.expert_count is {} (a mixture of experts)", experts));
  KVBED_ASSIGN_OR_RETURN(const auto causal, file.Flag("llama.attention.causal"));
  if (!causal.value_or(true)) return RefuseModel("llama.attention.causal is false");
  return Status::Ok();
}

Status CheckRopeScaling(const GgufFile& file) {
  KVBED_ASSIGN_OR_RETURN(const auto type, file.Text("llama.rope.scaling.type"));
  if (type && *type != "none")
    return RefuseModel(
        fmt::format("llama.rope.scaling.type \"{}\" isn't supported", PrintableText(*type)));
  if (type) return Status::Ok();
  // Without a type llama.cpp takes a factor as linear scaling.
  for (const std::string_view key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    KVBED_ASSIGN_OR_RETURN(const auto factor, file.Number(key));
    if (factor && *factor != 1 && *factor != 0)
      return RefuseModel(
          fmt::format("{} is {} (linear scaling), which isn't supported", key, *factor));
  }
  return Status::Ok();
}

Status ReadHeads(const GgufFile& file, ModelConfig* config) {
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.attention.head_count", true, &config->heads));
  config->kv_heads = config->heads;
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.attention.head_count_kv", false, &config->kv_heads));
  if (config->heads != 0) config->head_dim = config->hidden / config->heads;
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.attention.key_length", false, &config->head_dim));
  uint32_t value_dim = config->head_dim, rotated = config->head_dim;
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.attention.value_length", false, &value_dim));
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.rope.dimension_count", false, &rotated));
  if (value_dim != config->head_dim || rotated != config->head_dim)
    return RefuseModel(
        fmt::format("K has {} dims a head, V {}, rotary embedding covers {}: they must be "
                    "equal",
                    config->head_dim, value_dim, rotated));
  return Status::Ok();
}

Status ReadRopeFreqs(const GgufFile& file, ModelConfig* config) {
  const GgufTensor* tensor = FindTensor(file, kRopeFreqsName);
  if (tensor == nullptr) return Status::Ok();
  if (tensor->type != StoredType::kF32 || tensor->dims.size() != 1 ||
      tensor->dims[0] != config->head_dim / 2)
    return Status::Corruption(
        fmt::format("tensor {} must be {} numbers of F32", kRopeFreqsName, config->head_dim / 2));
  config->rope_freq_divisors.resize(tensor->dims[0]);
  Dequantize(StoredType::kF32, tensor->data, config->rope_freq_divisors);
  return Status::Ok();
}

Status ReadSpecialIds(const GgufFile& file, ModelConfig* config) {
  const auto read = [&](std::string_view key, std::vector<TokenId>* ids) -> Status {
    KVBED_ASSIGN_OR_RETURN(const auto id, file.WholeNumber(key));
    // All ones stands for "none".
    if (!id || *id == UINT32_MAX) return Status::Ok();
    if (*id >= config->vocab)
      return Status::Corruption(fmt::format("metadata key {} is {}, the vocabulary has {} tokens",
                                            key, *id, config->vocab));
    const auto token = static_cast<TokenId>(*id);
    if (std::find(ids->begin(), ids->end(), token) == ids->end()) ids->push_back(token);
    return Status::Ok();
  };
  KVBED_RETURN_IF_ERROR(read("tokenizer.ggml.bos_token_id", &config->bos_ids));
  KVBED_RETURN_IF_ERROR(read("tokenizer.ggml.eos_token_id", &config->eos_ids));
  return read("tokenizer.ggml.eot_token_id", &config->eos_ids);
}

// The rows of the embedding matrix, as llama.vocab_size says too when it is there.
Status ReadVocabularySize(const GgufFile& file, ModelConfig* config) {
  const GgufTensor* embedding = FindTensor(file, "token_embd.weight");
  if (embedding == nullptr)
    return Status::Corruption("the file has no tensor token_embd.weight, which the model needs");
  const uint64_t rows = embedding->dims.size() == 2 ? embedding->dims[1] : 0;
  if (rows > UINT32_MAX)
    return Status::Corruption(fmt::format("tensor token_embd.weight has {} rows", rows));
  config->vocab = static_cast<uint32_t>(rows);
  uint32_t stated = config->vocab;
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.vocab_size", false, &stated));
  if (stated != config->vocab)
    return Status::Corruption(
        fmt::format("llama.vocab_size is {}, token_embd.weight has {} rows", stated, rows));
  return Status::Ok();
}

Status ReadNumbers(const GgufFile& file, ModelConfig* config) {
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.embedding_length", true, &config->hidden));
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.block_count", true, &config->layers));
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.feed_forward_length", true, &config->intermediate));
  KVBED_RETURN_IF_ERROR(ReadCount(file, "llama.context_length", false, &config->max_position));
  KVBED_RETURN_IF_ERROR(ReadHeads(file, config));
  constexpr std::string_view kEpsilonKey = "llama.attention.layer_norm_rms_epsilon";
  KVBED_ASSIGN_OR_RETURN(const auto eps, file.Number(kEpsilonKey));
  if (!eps) return Status::Corruption(fmt::format("metadata key {} is missing", kEpsilonKey));
  config->rms_norm_eps = static_cast<float>(*eps);
  KVBED_ASSIGN_OR_RETURN(const auto theta, file.Number("llama.rope.freq_base"));
  config->rope_theta = theta.value_or(10000);  // llama.cpp's default
  return Status::Ok();
}

}  // namespace

Result<ModelConfig> ReadGgufConfig(const GgufFile& file) {
  KVBED_RETURN_IF_ERROR(CheckArchitecture(file));
  KVBED_RETURN_IF_ERROR(CheckUnsupported(file));
  KVBED_RETURN_IF_ERROR(CheckRopeScaling(file));
  ModelConfig config;
  config.architecture = "llama";
  KVBED_RETURN_IF_ERROR(ReadNumbers(file, &config));
  KVBED_RETURN_IF_ERROR(ReadRopeFreqs(file, &config));
  KVBED_RETURN_IF_ERROR(ReadVocabularySize(file, &config));
  KVBED_RETURN_IF_ERROR(ReadSpecialIds(file, &config));
  config.tie_word_embeddings = FindTensor(file, "output.weight") == nullptr;
  // The file's fault, not the caller's.
  if (const Status status = ValidateModelConfig(config); !status.ok())
    return Status::Corruption(status.message());
  return config;
}

Result<TensorMap> ReadGgufTensors(const GgufFile& file, const ModelConfig& config) {
  TensorMap tensors;
  for (const GgufTensor& stored : file.tensors()) {
    if (stored.name == kRopeFreqsName) continue;
    WeightTensor tensor;
    tensor.name = HfName(stored.name);
    if (tensor.name.empty())
      return RefuseModel(
          fmt::format("tensor {} is no part of a Llama model", PrintableText(stored.name, 200)));
    tensor.shape.assign(stored.dims.rbegin(), stored.dims.rend());
    tensor.type = stored.type;
    tensor.stored = stored.data;
    if (tensor.name.ends_with("self_attn.q_proj.weight") ||
        tensor.name.ends_with("self_attn.k_proj.weight"))
      tensor.interleaved_head_dim = config.head_dim;
    const std::string name = tensor.name;
    // "blk.01." and "blk.1." are two names of one tensor.
    if (!tensors.emplace(name, std::move(tensor)).second)
      return Status::Corruption(fmt::format("tensor {} is there twice", name));
  }
  return tensors;
}

}  // namespace kvbed
