// One field of a CSV file, quoted where RFC 4180 wants it.
#pragma once

#include <string>
#include <string_view>

namespace kvbed {

inline std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace kvbed
