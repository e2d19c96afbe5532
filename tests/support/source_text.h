// Reads source text for tests/tidy_test.cc: words, calls, includes, CMake's words.
// It knows no rule, and C++ only as far as comments and literals go.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace kvbed {

inline std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

inline bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The places where `word` stands with no word character on either side.
inline std::vector<size_t> FindWord(std::string_view text, std::string_view word) {
  std::vector<size_t> places;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !IsWordChar(text[at - 1])) && (end == text.size() || !IsWordChar(text[end]))) {
      places.push_back(at);
    }
  }
  return places;
}
inline bool HasWord(std::string_view text, std::string_view word) {
  return !FindWord(text, word).empty();
}

// A call of a free function: `name (`, and not of a member.
inline bool Calls(std::string_view code, std::string_view name) {
  return std::ranges::any_of(FindWord(code, name), [&](size_t at) {
    const size_t next = code.find_first_not_of(" \n", at + name.size());
    return next != code.npos && code[next] == '(' &&
           (at == 0 || (code[at - 1] != '.' && code[at - 1] != '>'));
  });
}

// `*` stands for anything.
inline bool MatchesGlob(std::string_view text, std::string_view glob) {
  if (glob.empty()) return text.empty();
  if (glob[0] != '*') {
    return !text.empty() && text[0] == glob[0] && MatchesGlob(text.substr(1), glob.substr(1));
  }
  return MatchesGlob(text, glob.substr(1)) || (!text.empty() && MatchesGlob(text.substr(1), glob));
}

// What is included between `open` and `close`, in order.
inline std::vector<std::string> Includes(std::string_view text, char open, char close) {
  std::vector<std::string> found;
  for (std::string_view line : Lines(text)) {
    for (std::string_view part : {"#", "include", ""}) {
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      if (!line.starts_with(part)) line = {};
      line.remove_prefix(std::min(part.size(), line.size()));
    }
    if (!line.starts_with(open)) continue;
    line.remove_prefix(1);
    found.emplace_back(line.substr(0, line.find(close)));
  }
  return found;
}
inline std::vector<std::string> OurIncludes(std::string_view text) {
  return Includes(text, '"', '"');
}
inline std::vector<std::string> OtherIncludes(std::string_view text) {
  return Includes(text, '<', '>');
}

inline bool IncludesAnyOf(std::string_view text, const std::vector<std::string_view>& globs) {
  return std::ranges::any_of(OtherIncludes(text), [&](const std::string& include) {
    return std::ranges::any_of(globs, [&](auto glob) { return MatchesGlob(include, glob); });
  });
}

// Without comments and the contents of literals: what is left are the words that the compiler sees.
inline std::string Code(std::string_view text) {
  std::string code;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      i += std::min(rest.find('\n'), rest.size()) - 1;
    } else if (rest.starts_with("/*")) {
      i += std::min(rest.find("*/", 2), rest.size() - 2) + 1;
    } else if (rest.starts_with("R\"")) {
      const std::string end = ")" + std::string(rest.substr(2, rest.find('(') - 2)) + "\"";
      i += std::min(rest.find(end) + end.size(), rest.size()) - 1;
      code += "\"\"";
    } else if (rest[0] == '"' || (rest[0] == '\'' && (i == 0 || !std::isalnum(text[i - 1])))) {
      const char quote = rest[0];
      for (++i; i < text.size() && text[i] != quote; ++i) i += text[i] == '\\';
      code += {quote, quote};
    } else {
      code += rest[0];
    }
  }
  return code;
}

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF, and no NUL in a text.
inline bool IsUtf8Text(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) { return at < text.size() ? uint8_t(text[at]) : 0u; };
    const uint32_t first = byte(i);
    const size_t length = first < 0x80   ? 1
                          : first < 0xC2 ? 0
                          : first < 0xE0 ? 2
                          : first < 0xF0 ? 3
                          : first < 0xF5 ? 4
                                         : 0;
    if (length == 0 || first == 0) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    const uint32_t second = byte(i + 1);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90)) {
      return false;
    }
    i += length;
  }
  return true;
}

inline std::string WithoutCMakeComments(std::string_view text) {
  std::string code;
  for (std::string_view line : Lines(text)) code.append(line.substr(0, line.find('#'))) += '\n';
  return code;
}

// The words of a CMake file, with each parenthesis a word of its own.
inline std::vector<std::string> CMakeWords(std::string_view cmake) {
  std::string spaced;
  for (char c : WithoutCMakeComments(cmake)) {
    spaced += (c == '(' || c == ')') ? std::string{' ', c, ' '} : std::string{c};
  }
  std::istringstream in(spaced);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace kvbed
