// Reads a GGUF file's tokenizer metadata into a TokenizerDefinition.
// It doesn't encode anything. A pre-tokenizer that kvbed doesn't do exactly is refused by name.
#pragma once

#include <optional>

#include "engine/model/gguf_file.h"
#include "engine/model/tokenizer_definition.h"
#include "offload/status.h"

namespace kvbed {

// Nullopt when the file has no tokenizer. `vocabulary_size`: rows of the model's embeddings, which
// the tokens may not exceed.
Result<std::optional<TokenizerDefinition>> ReadGgufTokenizer(const GgufFile& file,
                                                             uint32_t vocabulary_size);

}  // namespace kvbed
