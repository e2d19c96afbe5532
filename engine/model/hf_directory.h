// Reads a Hugging Face model directory: config.json, safetensors (one file or shards with an index)
// and tokenizer.json.
// It doesn't know the formats' insides; hf_config.h, safetensors_file.h and tokenizer_json.h do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/model/tokenizer_definition.h"
#include "engine/model/weights.h"
#include "offload/status.h"

namespace kvbed {

struct HfDirectory {
  ModelConfig config;
  Weights weights;
  std::optional<TokenizerDefinition> tokenizer;
  std::string no_tokenizer_reason;
  std::vector<std::string> warnings;
};

// Tied embeddings and lm_head.weight: tied and absent, or tied and equal: shared. Tied and present
// with other numbers: the stored one is used, with a warning, as transformers 5 does. Untied and
// absent: corruption. Messages name the file at fault.
Result<HfDirectory> ReadHfDirectory(const std::string& directory);

// Opens a file whose content is expected to be there: a git-lfs pointer in its place is refused, as
// is a file above `bytes_max`.
Result<MappedFile> OpenModelFile(const std::string& path, uint64_t bytes_max = UINT64_MAX);

}  // namespace kvbed
