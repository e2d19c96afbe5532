#include "engine/model/hf_directory.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/model/hf_config.h"
#include "engine/model/json_document.h"
#include "engine/model/llama_tensors.h"
#include "engine/model/safetensors_file.h"
#include "engine/model/tokenizer_json.h"
#include "engine/model/utf8.h"

namespace kvbed {
namespace {

// Limits on text files, many times what real ones have (Llama 3's tokenizer.json: 17 MB).
constexpr uint64_t kConfigBytesMax = 1 << 20;
constexpr uint64_t kIndexBytesMax = 64 << 20;
constexpr uint64_t kTokenizerBytesMax = 256 << 20;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string In(const std::string& directory, std::string_view file) {
  return (std::filesystem::path(directory) / file).string();
}

Result<ModelConfig> ReadConfig(const std::string& directory) {
  const std::string path = In(directory, "config.json");
  if (!Exists(path))
    return Status::NotFound(
        fmt::format("{} has no config.json, so it is no Hugging Face model directory", directory));
  KVBED_ASSIGN_OR_RETURN(const MappedFile file, OpenModelFile(path, kConfigBytesMax));
  auto config = ParseHfConfig(AsText(file.bytes()));
  if (!config.ok()) return config.status().WithContext(path);
  const std::string generation_path = In(directory, "generation_config.json");
  if (!Exists(generation_path)) return config;
  KVBED_ASSIGN_OR_RETURN(const MappedFile generation,
                         OpenModelFile(generation_path, kConfigBytesMax));
  auto eos_ids = ParseGenerationEosIds(AsText(generation.bytes()));
  if (!eos_ids.ok()) return eos_ids.status().WithContext(generation_path);
  if (!eos_ids->empty()) config->eos_ids = *std::move(eos_ids);
  return config;
}

// The shards that an index names, without repeats, and which tensor it expects where.
using ShardOfTensor = std::map<std::string, std::string>;

Result<ShardOfTensor> ParseIndex(Bytes text) {
  KVBED_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  const Json* weight_map = FindField(json, "weight_map");
  if (weight_map == nullptr || !weight_map->is_object() || weight_map->empty())
    return Status::Corruption("weight_map is missing or empty");
  ShardOfTensor shards;
  for (const auto& [tensor, value] : weight_map->items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : std::string();
    if (shard.empty() || shard.find('/') != std::string::npos || shard.starts_with('.') ||
        shard.find('\0') != std::string::npos)
      return Status::Corruption(
          fmt::format("weight_map gives tensor {} the file {}, must be a name in this directory",
                      PrintableText(tensor, 200), JsonForMessage(value)));
    shards.emplace(tensor, shard);
  }
  return shards;
}

Result<StoredType> StoredTypeOf(const SafetensorsTensor& tensor) {
  if (tensor.dtype == "F32") return StoredType::kF32;
  if (tensor.dtype == "F16") return StoredType::kF16;
  if (tensor.dtype == "BF16") return StoredType::kBf16;
  return Status::NotSupported(
      fmt::format("tensor {} has dtype {}; kvbed reads F32, F16 and BF16 weights",
                  PrintableText(tensor.name, 200), tensor.dtype));
}

// Whether the model could want this tensor; others may be of any dtype and shape.
bool IsModelTensor(std::string_view name) {
  return (name.starts_with("model.") || name.starts_with("lm_head.")) &&
         !name.ends_with(".rotary_emb.inv_freq");
}

// Adds a file's tensors; those that are no part of the model only as warnings.
Status AddTensors(const MappedFile& file, TensorMap* tensors, std::vector<std::string>* warnings) {
  auto parsed = ParseSafetensors(file.bytes());
  if (!parsed.ok()) return parsed.status().WithContext(file.path());
  for (SafetensorsTensor& stored : *parsed) {
    const std::string name = stored.name;
    if (!IsModelTensor(name)) {
      if (!name.ends_with(".rotary_emb.inv_freq"))
        warnings->push_back(fmt::format("tensor {} isn't used: the model has no such part",
                                        PrintableText(name, 200)));
      continue;
    }
    auto type = StoredTypeOf(stored);
    if (!type.ok()) return type.status().WithContext(file.path());
    WeightTensor tensor;
    tensor.name = name;
    tensor.shape = std::move(stored.shape);
    tensor.type = *type;
    tensor.stored = stored.data;
    if (!tensors->emplace(name, std::move(tensor)).second)
      return Status::Corruption(fmt::format("{}: tensor {} is in another shard too", file.path(),
                                            PrintableText(name, 200)));
  }
  return Status::Ok();
}

Status NoWeights(const std::string& directory) {
  const bool pickled = Exists(In(directory, "pytorch_model.bin")) ||
                       Exists(In(directory, "pytorch_model.bin.index.json"));
  return Status::NotFound(fmt::format(
      "{} has neither model.safetensors nor model.safetensors.index.json{}", directory,
      pickled ? "; pytorch_model.bin isn't read: save it as safetensors with transformers" : ""));
}

// The shards that `index_path` names must hold the tensors that it says they hold.
Status ReadShards(const std::string& directory, const std::string& index_path,
                  std::vector<MappedFile>* files, TensorMap* tensors,
                  std::vector<std::string>* warnings) {
  KVBED_ASSIGN_OR_RETURN(const MappedFile index, OpenModelFile(index_path, kIndexBytesMax));
  auto shard_of = ParseIndex(index.bytes());
  if (!shard_of.ok()) return shard_of.status().WithContext(index_path);
  std::map<std::string, TensorMap> shards;
  for (const auto& [tensor, shard] : *shard_of) shards[shard];
  for (auto& [shard, content] : shards) {
    auto file = OpenModelFile(In(directory, shard));
    if (!file.ok()) return file.status().WithContext(fmt::format("shard of {}", index_path));
    KVBED_RETURN_IF_ERROR(AddTensors(*file, &content, warnings));
    files->push_back(std::move(file).value());
  }
  for (const auto& [tensor, shard] : *shard_of)
    if (IsModelTensor(tensor) && !shards.at(shard).contains(tensor))
      return Status::Corruption(fmt::format("{}: tensor {} should be in {}, which doesn't hold it",
                                            index_path, PrintableText(tensor, 200), shard));
  for (auto& [shard, content] : shards) {
    tensors->merge(content);
    if (!content.empty())
      return Status::Corruption(fmt::format("{}: tensor {} is in another shard too",
                                            In(directory, shard),
                                            PrintableText(content.begin()->first, 200)));
  }
  return Status::Ok();
}

Status ReadWeightFiles(const std::string& directory, std::vector<MappedFile>* files,
                       TensorMap* tensors, std::vector<std::string>* warnings) {
  const std::string single = In(directory, "model.safetensors");
  const std::string index = In(directory, "model.safetensors.index.json");
  // The single file first, as transformers does.
  if (Exists(single)) {
    KVBED_ASSIGN_OR_RETURN(MappedFile file, OpenModelFile(single));
    KVBED_RETURN_IF_ERROR(AddTensors(file, tensors, warnings));
    files->push_back(std::move(file));
    return Status::Ok();
  }
  if (Exists(index)) return ReadShards(directory, index, files, tensors, warnings);
  return NoWeights(directory);
}

bool SameStored(const WeightTensor& a, const WeightTensor& b) {
  return a.type == b.type && a.shape == b.shape && a.stored.size() == b.stored.size() &&
         std::memcmp(a.stored.data(), b.stored.data(), a.stored.size()) == 0;
}

// Settles whether the output matrix is the embedding matrix.
void ResolveTiedOutput(ModelConfig* config, TensorMap* tensors,
                       std::vector<std::string>* warnings) {
  const auto output = tensors->find(kOutputName);
  const auto embedding = tensors->find(kEmbeddingName);
  if (!config->tie_word_embeddings || output == tensors->end() || embedding == tensors->end())
    return;
  if (SameStored(output->second, embedding->second)) {
    tensors->erase(output);
    return;
  }
  config->tie_word_embeddings = false;
  warnings->push_back(
      "config.json ties the word embeddings, but lm_head.weight is stored and differs from "
      "model.embed_tokens.weight: the stored lm_head.weight is used");
}

Status ReadTokenizer(const std::string& directory, HfDirectory* model) {
  const std::string path = In(directory, "tokenizer.json");
  if (!Exists(path)) {
    const bool pieces = Exists(In(directory, "tokenizer.model"));
    model->no_tokenizer_reason =
        fmt::format("{} has no tokenizer.json{}", directory,
                    pieces ? " (SentencePiece's tokenizer.model isn't read)" : "");
    return Status::Ok();
  }
  KVBED_ASSIGN_OR_RETURN(const MappedFile file, OpenModelFile(path, kTokenizerBytesMax));
  auto definition = ParseTokenizerJson(AsText(file.bytes()));
  if (!definition.ok()) return definition.status().WithContext(path);
  if (definition->tokens.size() > model->config.vocab)
    return Status::Corruption(fmt::format("{} has token ids up to {}, the model's vocab_size is {}",
                                          path, definition->tokens.size() - 1,
                                          model->config.vocab));
  model->tokenizer = std::move(definition).value();
  return Status::Ok();
}

}  // namespace

Result<MappedFile> OpenModelFile(const std::string& path, uint64_t bytes_max) {
  KVBED_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  if (AsText(file.bytes()).starts_with("version https://git-lfs.github.com/spec/"))
    return Status::Corruption(
        fmt::format("{} is a git-lfs pointer, not the file itself: run `git lfs pull` in its "
                    "repository",
                    path));
  if (file.bytes().size() > bytes_max)
    return Status::NotSupported(fmt::format("{} has a size of {} bytes, the limit is {}", path,
                                            file.bytes().size(), bytes_max));
  return file;
}

Result<HfDirectory> ReadHfDirectory(const std::string& directory) {
  HfDirectory model;
  KVBED_ASSIGN_OR_RETURN(model.config, ReadConfig(directory));
  std::vector<MappedFile> files;
  TensorMap tensors;
  KVBED_RETURN_IF_ERROR(ReadWeightFiles(directory, &files, &tensors, &model.warnings));
  ResolveTiedOutput(&model.config, &tensors, &model.warnings);
  if (const Status status = CheckLlamaTensors(model.config, tensors); !status.ok())
    return status.WithContext(directory);
  const auto& query = tensors.at(LayerTensorName(0, "self_attn.q_proj.weight"));
  model.config.stored_dtype = StoredTypeName(query.type);
  model.weights = Weights(std::move(files), std::move(tensors));
  KVBED_RETURN_IF_ERROR(ReadTokenizer(directory, &model));
  return model;
}

}  // namespace kvbed
