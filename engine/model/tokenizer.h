// Text to token ids and back: byte-level BPE with its pre-tokenizer, added tokens and
// post-processor, as a tokenizer.json or a GGUF file defines them.
// It doesn't know files; tokenizer_json.h and gguf_tokenizer.h make the definition.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/model/tokenizer_definition.h"
#include "offload/digest.h"
#include "offload/status.h"

namespace kvbed {

struct EncodeOptions {
  // On: the text of a special token ("<|im_end|>") becomes its id. Off: text is text.
  bool parse_special = false;
  // On: what the post-processor adds before and after the text (BOS of Llama 3) is added.
  bool add_special = true;
};

struct Encoding {
  std::vector<TokenId> ids;
  // BOS was added before a text that begins with BOS itself. Worth a warning: the ids are as the
  // model's own tokenizer gives them, but hardly what was meant.
  bool doubled_bos = false;
};

// Immutable once made; any number of threads may use one.
class Tokenizer {
 public:
  // Corruption or not supported when the definition contradicts itself.
  static Result<Tokenizer> Create(TokenizerDefinition definition);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // `text` is any bytes: a byte that is no part of well-formed UTF-8 counts as one character that
  // is neither letter, number nor space. Invalid argument, naming byte and offset, when the
  // vocabulary lacks a token that the text needs.
  Result<Encoding> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The raw bytes, so that a character spread over tokens comes out whole; special tokens as their
  // text. Ids without a token (a model may have more rows than tokens) give nothing.
  std::string Decode(std::span<const TokenId> ids) const;
  // The bytes of one token; empty for an id without a token.
  std::string_view TokenBytes(TokenId id) const;
  // Printable UTF-8: bytes that are none as \xNN, control characters as \n or \xNN; "[id]" for an
  // id without a token.
  std::string TokenText(TokenId id) const;

  bool IsSpecial(TokenId id) const;
  // One above the highest id with a token.
  TokenId vocabulary_size() const;
  // Over what decides ids and texts, and nothing else: the same for a GGUF file and the
  // tokenizer.json that it was made from.
  Digest128 digest() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace kvbed
