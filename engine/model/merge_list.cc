#include "engine/model/merge_list.h"

#include <fmt/format.h>

#include "engine/model/utf8.h"

namespace kvbed {

MergeResolver::MergeResolver(const std::vector<TokenEntry>& tokens) {
  ids_.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id)
    if (tokens[id].kind != TokenKind::kAbsent && !tokens[id].text.empty())
      ids_.emplace(tokens[id].text, static_cast<TokenId>(id));
}

Result<Merge> MergeResolver::Resolve(std::string_view left, std::string_view right) const {
  const std::string together = std::string(left) + std::string(right);
  for (const std::string_view text : {left, right, std::string_view(together)})
    if (!ids_.contains(text))
      return Status::Corruption(fmt::format("\"{}\" + \"{}\": \"{}\" is no token",
                                            PrintableText(left), PrintableText(right),
                                            PrintableText(text)));
  return Merge{.left = ids_.at(left), .right = ids_.at(right), .merged = ids_.at(together)};
}

Result<Merge> MergeResolver::ResolveLine(std::string_view line) const {
  const size_t space = line.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == line.size())
    return Status::Corruption(
        fmt::format("\"{}\" is not two tokens with a space between", PrintableText(line)));
  return Resolve(line.substr(0, space), line.substr(space + 1));
}

}  // namespace kvbed
