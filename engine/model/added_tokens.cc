#include "engine/model/added_tokens.h"

#include "offload/check.h"

namespace kvbed {

void AddedTokens::Add(std::string_view text, TokenId id) {
  KVBED_CHECK(!text.empty());
  uint32_t at = 0;
  for (const char c : text) {
    const auto next = static_cast<uint32_t>(nodes_.size());
    const auto [child, is_new] = nodes_[at].children.emplace(c, next);
    at = child->second;
    if (is_new) nodes_.emplace_back();
  }
  if (nodes_[at].id < 0) nodes_[at].id = id;
}

AddedTokens::Found AddedTokens::Find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    Found longest{begin, begin, 0};
    uint32_t at = 0;
    for (size_t end = begin; end < text.size();) {
      const auto child = nodes_[at].children.find(text[end]);
      if (child == nodes_[at].children.end()) break;
      at = child->second;
      ++end;
      if (nodes_[at].id >= 0) longest = {begin, end, nodes_[at].id};
    }
    if (longest.end > longest.begin) return longest;
  }
  return {text.size(), text.size(), 0};
}

}  // namespace kvbed
