// A GGUF file of a Llama model as config and tensors under their Hugging Face names.
// It doesn't know the container's bytes (gguf_file.h) nor the tokenizer (gguf_tokenizer.h).
#pragma once

#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"
#include "offload/status.h"

namespace kvbed {

// From the metadata and, for what has no key, the tensors (llama3's frequency divisors, a tied
// output). Not supported, by name, for what kvbed can't run faithfully.
Result<ModelConfig> ReadGgufConfig(const GgufFile& file);

// Under Hugging Face names, with Q's and K's rows marked as interleaved pairs. The bytes are those
// of `file`'s own.
Result<TensorMap> ReadGgufTensors(const GgufFile& file, const ModelConfig& config);

}  // namespace kvbed
