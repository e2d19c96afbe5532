// A table of short texts, as columns on a terminal or as Markdown.
// It doesn't know what stands in it.
#pragma once

#include <string>
#include <vector>

namespace kvbed {

struct TextTable {
  std::vector<std::string> titles;
  std::vector<std::vector<std::string>> rows;  // as many texts as titles

  // The first column to the left, the others, which are numbers, to the right.
  std::string AsText(size_t indent) const;
  std::string AsMarkdown() const;
};

}  // namespace kvbed
