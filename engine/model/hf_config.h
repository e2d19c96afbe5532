// Reads a Hugging Face config.json, as transformers 4 and 5 write it, into a ModelConfig.
// It doesn't know weights. What would make kvbed compute something else than transformers is
// refused by name, never ignored.
#pragma once

#include <string_view>

#include "engine/model/model_config.h"
#include "offload/status.h"

namespace kvbed {

// `text` is the file's content; messages don't name the file. stored_dtype stays empty: it is a
// fact of the weights.
Result<ModelConfig> ParseHfConfig(std::string_view text);

// The end-of-text ids of a generation_config.json, which transformers takes before config.json's;
// empty when it has none.
Result<std::vector<TokenId>> ParseGenerationEosIds(std::string_view text);

}  // namespace kvbed
