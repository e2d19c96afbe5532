// Opens any MODEL that the command line can name: a GGUF file, a Hugging Face directory or a toy.
// It doesn't know kernels: values are read through Weights by whoever packs them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/model/tokenizer.h"
#include "engine/model/weights.h"
#include "offload/model_digests.h"
#include "offload/status.h"

namespace kvbed {

struct ModelFiles {
  std::string name;  // for people: the file's or directory's last part, or the toy's spec
  ModelConfig config;
  Weights weights;
  std::optional<Tokenizer> tokenizer;
  std::string no_tokenizer_reason;    // why there is none; empty when there is one
  std::vector<std::string> warnings;  // one sentence each
};

// `spec` is a path or "toy:8m[?key=value&...]". All tensors that the config calls for are there
// with the right shapes when it succeeds. Failures say what, where, why and what to do: not found
// or I/O error for the file, corruption for a malformed one, not supported for what kvbed can't run
// faithfully, invalid argument for a wrong spec.
Result<ModelFiles> OpenModel(std::string_view spec);

// Reads every stored byte once (milliseconds per 100 MB when cached); keep the result.
ModelDigests DigestModel(const ModelFiles& model);

}  // namespace kvbed
