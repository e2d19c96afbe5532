// What is done with a model that a parser accepted: every value and a text through the tokenizer.
// It doesn't know the format that they came from.
#pragma once

#include "engine/model/tokenizer_definition.h"
#include "engine/model/weights.h"
#include "offload/status.h"

namespace kvbed {

// Reads every value of every tensor.
void UseTensors(const TensorMap& tensors);

// Whether a tokenizer can be made of it; then it has encoded and decoded a text.
bool UseTokenizer(Result<TokenizerDefinition> definition);

}  // namespace kvbed
