// The prompt of a run as token ids, from text, a file, ids, or a toy model's seed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/model/model_files.h"
#include "offload/status.h"
#include "tools/common_options.h"

namespace kvbed {

struct Prompt {
  std::optional<std::string> text;  // raw bytes as given; none for ids
  std::vector<TokenId> ids;         // at least one
  std::vector<std::string> warnings;
};

// What is held of each token besides its K and V: its id, its text, its line in the results.
inline constexpr uint64_t kPromptBytesPerToken = 512;

// Invalid argument when no prompt is given (a toy takes seeded ids then), when it is empty, when an
// id is outside the vocabulary, or when the model has no tokenizer for a text. Out of space when
// --ctx tokens, of which each takes `token_bytes` in the command, are more than memory holds.
Result<Prompt> ResolvePrompt(const PromptOptions& options, const ModelFiles& model, uint64_t seed,
                             uint64_t token_bytes);

// Bytes of a file, or of standard input for "-"; at most 1 GiB.
Result<std::string> ReadPromptFile(const std::string& path);

}  // namespace kvbed
