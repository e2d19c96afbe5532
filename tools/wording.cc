#include "tools/wording.h"

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

}  // namespace kvbed
