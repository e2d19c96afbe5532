// The seam between the engine and its sets of kernels: what one call of a forward pass is asked to
// do. A set is a class with Open, Forward, weight_bytes and environment; torch/torch_model.h is
// one. Nothing here knows how any of them computes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/model/model_config.h"
#include "engine/op_output.h"
#include "offload/sequence.h"

namespace kvbed {

// Gets the logits, one for each id of the vocabulary, that follow token `index` of the call.
using LogitsSink = std::function<void(uint64_t index, std::span<const float> logits)>;

// Tokens at the positions from sequence.cached_tokens() on. They attend to what the sequence's
// records hold before them and to each other, and their K and V are written to the records, for
// which room is reserved; advancing the sequence is the caller's.
struct ForwardCall {
  std::span<const TokenId> tokens;  // at least 1, each within the vocabulary
  Sequence& sequence;               // its pool has the model's geometry
  uint64_t first_logits = 0;        // index from which on logits are wanted; tokens.size(): none
  const LogitsSink& on_logits;      // in order of the tokens
  const OpTap* tap = nullptr;       // sees each operation's output; null: nobody looks
};

// One token of each of several sequences, as ForwardCall would run it: the next one of each.
struct DecodeRow {
  TokenId token = 0;             // within the vocabulary
  Sequence* sequence = nullptr;  // none is there twice
};
struct DecodeCall {
  std::span<const DecodeRow> rows;
  const LogitsSink& on_logits;  // for each row, in order
};

}  // namespace kvbed
