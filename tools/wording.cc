#include "tools/wording.h"

#include <fmt/format.h>

namespace kvbed {

std::string Thousands(uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string Count(uint64_t value, std::string_view one, std::string_view many) {
  return Thousands(value) + " " + std::string(value == 1 ? one : many);
}

std::string Duration(uint64_t ns) {
  const double seconds = static_cast<double>(ns) / 1e9;
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                         : fmt::format("{:.0f} us", seconds * 1e6);
}

}  // namespace kvbed
