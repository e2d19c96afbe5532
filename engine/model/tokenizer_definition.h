// What defines a byte-level BPE tokenizer, as plain values.
// It doesn't know the files that hold it nor how text is encoded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/model_config.h"

namespace kvbed {

// The ways of cutting text into words before BPE that kvbed does faithfully.
enum class PreTokenizerKind : uint8_t {
  kGpt2,        // GPT-2's pattern (ByteLevel with use_regex)
  kDigitsGpt2,  // each numeric character by itself, GPT-2's pattern between them (SmolLM2)
  kLlama3,      // Llama 3's Split pattern
};

enum class TokenKind : uint8_t {
  kAbsent,       // no token has this id
  kNormal,       // made by BPE; its text is in the byte alphabet (byte_alphabet.h)
  kSpecial,      // raw text, matched in a text only when asked
  kUserDefined,  // raw text, always matched
};

struct TokenEntry {
  std::string text;
  TokenKind kind = TokenKind::kAbsent;
};

// `left` followed by `right` becomes `merged`; the earlier in the list, the sooner.
struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId merged = 0;
};

struct TokenizerDefinition {
  std::vector<TokenEntry> tokens;  // by id
  std::vector<Merge> merges;
  PreTokenizerKind pre_tokenizer = PreTokenizerKind::kGpt2;
  // A word that is itself a token is taken whole, whatever the merges would make of it (Llama 3).
  bool ignore_merges = false;
  // What the post-processor puts before and after a text.
  std::vector<TokenId> prefix_ids;
  std::vector<TokenId> suffix_ids;
};

}  // namespace kvbed
