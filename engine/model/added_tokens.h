// Finds the texts of added tokens in a text: the leftmost, of those that start there the longest.
// It doesn't know which of them are special.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/model_config.h"

namespace kvbed {

class AddedTokens {
 public:
  // `text` isn't empty; of equal texts the first added stays.
  void Add(std::string_view text, TokenId id);
  bool empty() const { return nodes_.size() == 1; }

  struct Found {
    size_t begin = 0;
    size_t end = 0;  // equal to begin: there is none
    TokenId id = 0;
  };
  // The first one at or after `from`.
  Found Find(std::string_view text, size_t from) const;

 private:
  struct Node {
    std::map<char, uint32_t> children;
    TokenId id = -1;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace kvbed
