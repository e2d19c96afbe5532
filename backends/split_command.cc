#include "backends/split_command.h"

#include <fmt/format.h>

namespace kvbed {
namespace {

constexpr std::string_view kBlanks = " \t\n";

}  // namespace

Result<std::vector<CommandWord>> SplitCommand(std::string_view line) {
  std::vector<CommandWord> words;
  for (size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;
       at = line.find_first_not_of(kBlanks, at)) {
    const size_t begin = at;
    std::string text;
    char quote = 0;
    for (; at < line.size() && (quote != 0 || kBlanks.find(line[at]) == std::string_view::npos);
         ++at) {
      const char c = line[at];
      const bool more = at + 1 < line.size();
      const bool escapes = c == '\\' && more && quote != '\'' &&
                           (quote == 0 || line[at + 1] == '"' || line[at + 1] == '\\');
      if (escapes) {
        text += line[++at];
      } else if (quote == 0 && (c == '\'' || c == '"')) {
        quote = c;
      } else if (quote != 0 && c == quote) {
        quote = 0;
      } else {
        text += c;
      }
    }
    if (quote != 0) {
      return Status::InvalidArgument(fmt::format("a {} in the command isn't closed", quote));
    }
    words.push_back({std::move(text), line.substr(begin, at - begin)});
  }
  return words;
}

std::string QuoteWord(std::string_view text) {
  const auto plain = [](char c) {
    return c > 0x20 && c < 0x7f && std::string_view("'\"\\#").find(c) == std::string_view::npos;
  };
  bool quoted = text.empty();
  for (const char c : text) quoted |= !plain(c);
  if (!quoted) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace kvbed
