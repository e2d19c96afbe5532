// The digests of a model's weights and of the config values that change KV.
// It doesn't know files: shards and the single file, an aligned and an unaligned one, and configs
// that say the same in other words give the same digests.
#pragma once

#include "engine/model/model_config.h"
#include "engine/model/weights.h"
#include "offload/digest.h"

namespace kvbed {

// XXH3-128 over the tensors in name order, each as length-prefixed fields: name, type, row order,
// shape, bytes as stored. Of a toy's tensor, instead of the bytes: the generator's name and
// numbers. Reads every stored byte.
Digest128 DigestWeights(const Weights& weights);

// XXH3-128 over tagged fields of fixed width: shape, norm epsilon and everything that rotary
// frequencies follow from. Not: tied embeddings (the weights tell), ids, max_position, dtype.
Digest128 DigestConfig(const ModelConfig& config);

// What stands for a tokenizer's digest where there is none.
Digest128 DigestOfNoTokenizer();

}  // namespace kvbed
