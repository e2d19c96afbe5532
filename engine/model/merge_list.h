// Turns merges written as token texts, as files have them, into merges of ids.
// It doesn't know which file they come from.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/model/tokenizer_definition.h"
#include "offload/status.h"

namespace kvbed {

class MergeResolver {
 public:
  // `tokens` must outlive this object.
  explicit MergeResolver(const std::vector<TokenEntry>& tokens);

  // Corruption when a side or the result is no token.
  Result<Merge> Resolve(std::string_view left, std::string_view right) const;
  // "left right" with one space between; a space inside a token is written otherwise in the byte
  // alphabet.
  Result<Merge> ResolveLine(std::string_view line) const;

 private:
  std::unordered_map<std::string_view, TokenId> ids_;
};

}  // namespace kvbed
