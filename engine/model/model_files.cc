#include "engine/model/model_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/model/fingerprint.h"
#include "engine/model/gguf_file.h"
#include "engine/model/gguf_model.h"
#include "engine/model/gguf_tokenizer.h"
#include "engine/model/hf_directory.h"
#include "engine/model/llama_tensors.h"
#include "engine/model/toy_model.h"
#include "engine/model/utf8.h"

namespace kvbed {
namespace {

Result<ModelFiles> OpenToy(std::string_view spec) {
  auto toy = MakeToy(spec);
  if (!toy.ok()) return toy.status().WithContext(PrintableText(spec, 200));
  ModelFiles model;
  model.name = spec;
  model.config = std::move(toy->config);
  model.weights = Weights({}, std::move(toy->tensors));
  model.no_tokenizer_reason = "a toy model has no tokenizer; give token ids";
  return model;
}

Status MakeTokenizer(std::optional<TokenizerDefinition> definition, std::string_view file,
                     ModelFiles* model) {
  if (!definition) return Status::Ok();
  auto tokenizer = Tokenizer::Create(*std::move(definition));
  if (!tokenizer.ok()) return tokenizer.status().WithContext(file);
  model->tokenizer = std::move(tokenizer).value();
  return Status::Ok();
}

Result<ModelFiles> OpenDirectory(const std::string& path) {
  KVBED_ASSIGN_OR_RETURN(HfDirectory directory, ReadHfDirectory(path));
  ModelFiles model;
  model.config = std::move(directory.config);
  model.weights = std::move(directory.weights);
  model.warnings = std::move(directory.warnings);
  model.no_tokenizer_reason = std::move(directory.no_tokenizer_reason);
  KVBED_RETURN_IF_ERROR(MakeTokenizer(std::move(directory.tokenizer),
                                      (std::filesystem::path(path) / "tokenizer.json").string(),
                                      &model));
  return model;
}

// Everything but the file's name in messages.
Result<ModelFiles> ReadGguf(MappedFile mapped) {
  KVBED_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Parse(mapped.bytes()));
  ModelFiles model;
  KVBED_ASSIGN_OR_RETURN(model.config, ReadGgufConfig(file));
  KVBED_ASSIGN_OR_RETURN(TensorMap tensors, ReadGgufTensors(file, model.config));
  KVBED_RETURN_IF_ERROR(CheckLlamaTensors(model.config, tensors));
  const auto& query = tensors.at(LayerTensorName(0, "self_attn.q_proj.weight"));
  model.config.stored_dtype = StoredTypeName(query.type);
  KVBED_ASSIGN_OR_RETURN(auto definition, ReadGgufTokenizer(file, model.config.vocab));
  if (!definition) model.no_tokenizer_reason = "the GGUF file holds no tokenizer";
  KVBED_RETURN_IF_ERROR(MakeTokenizer(std::move(definition), "tokenizer", &model));
  std::vector<MappedFile> files;
  files.push_back(std::move(mapped));
  model.weights = Weights(std::move(files), std::move(tensors));
  return model;
}

Result<ModelFiles> OpenGguf(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".safetensors" || extension == ".json")
    return Status::InvalidArgument(
        fmt::format("{} is one file of a Hugging Face model: give the directory that holds it and "
                    "config.json",
                    path));
  KVBED_ASSIGN_OR_RETURN(MappedFile mapped, OpenModelFile(path));
  auto model = ReadGguf(std::move(mapped));
  if (!model.ok()) return model.status().WithContext(path);
  return model;
}

Status NoSuchModel(const std::string& path) {
  return Status::NotFound(
      fmt::format("model {} doesn't exist; a model is a GGUF file, a Hugging Face directory with "
                  "config.json and safetensors, or a toy (toy:8m, toy:62m). Nothing is downloaded",
                  PrintableText(path, 400)));
}

}  // namespace

Result<ModelFiles> OpenModel(std::string_view spec) {
  if (spec.empty() || spec.find('\0') != std::string_view::npos)
    return Status::InvalidArgument("the model's path is empty or holds a zero byte");
  if (IsToySpec(spec)) return OpenToy(spec);
  const std::string path(spec);
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) return NoSuchModel(path);
  if (error) return StatusFromErrno(error.value(), fmt::format("open model {}", path));
  auto model = kind == std::filesystem::file_type::directory ? OpenDirectory(path) : OpenGguf(path);
  if (!model.ok()) return model;
  // "dir/" ends in an empty part.
  const std::filesystem::path absolute = std::filesystem::absolute(path, error).lexically_normal();
  model->name = absolute.has_filename() ? absolute.filename().string()
                                        : absolute.parent_path().filename().string();
  return model;
}

ModelDigests DigestModel(const ModelFiles& model) {
  return {.weights = DigestWeights(model.weights),
          .config = DigestConfig(model.config),
          .tokenizer = model.tokenizer ? model.tokenizer->digest() : DigestOfNoTokenizer()};
}

}  // namespace kvbed
