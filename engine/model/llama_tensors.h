// Which tensors a Llama-family model consists of and of what shape.
// It doesn't know file formats.
#pragma once

#include <string>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/model/weights.h"
#include "offload/status.h"

namespace kvbed {

// Calls `visit(name, shape)` -> Status for each tensor in model order, lm_head.weight only when the
// embeddings aren't tied; stops at the first error.
template <class Visit>
Status ForEachLlamaTensor(const ModelConfig& config, Visit visit);

// Checks that `tensors` are those that the model consists of. Corruption, naming the tensor, when
// one is missing or of another shape than the config says; not supported for one too many (a bias,
// a norm of Q): the model isn't what the config says.
Status CheckLlamaTensors(const ModelConfig& config, const TensorMap& tensors);

// The shape of a layer's tensor, by its part of kLayerParts.
std::vector<uint64_t> LayerTensorShape(const ModelConfig& config, std::string_view part);

template <class Visit>
Status ForEachLlamaTensor(const ModelConfig& config, Visit visit) {
  using Shape = std::vector<uint64_t>;
  KVBED_RETURN_IF_ERROR(visit(std::string(kEmbeddingName), Shape{config.vocab, config.hidden}));
  for (uint32_t layer = 0; layer < config.layers; ++layer)
    for (const std::string_view part : kLayerParts)
      KVBED_RETURN_IF_ERROR(visit(LayerTensorName(layer, part), LayerTensorShape(config, part)));
  KVBED_RETURN_IF_ERROR(visit(std::string(kFinalNormName), Shape{config.hidden}));
  if (config.tie_word_embeddings) return Status::Ok();
  return visit(std::string(kOutputName), Shape{config.vocab, config.hidden});
}

}  // namespace kvbed
