// Reads a Hugging Face tokenizer.json into a TokenizerDefinition.
// It doesn't encode anything. Any part that kvbed doesn't do exactly as the tokenizers library is
// refused by name.
#pragma once

#include <string_view>

#include "engine/model/tokenizer_definition.h"
#include "offload/status.h"

namespace kvbed {

// `text` is the file's content; messages don't name the file.
Result<TokenizerDefinition> ParseTokenizerJson(std::string_view text);

}  // namespace kvbed
