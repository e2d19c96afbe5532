#include "backends/byte_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

namespace kvbed {
namespace {

// 0 for an unknown suffix.
uint64_t SuffixFactor(std::string_view suffix) {
  std::string lower;
  for (char c : suffix) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.empty() || lower == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgt";
  const size_t power = kPrefixes.find(lower[0]);
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = std::string_view(lower).substr(1);
  uint64_t base = 0;
  if (rest.empty() || rest == "b") base = 1000;
  if (rest == "i" || rest == "ib") base = 1024;
  if (base == 0) return 0;
  uint64_t factor = 1;
  for (size_t i = 0; i <= power; ++i) factor *= base;
  return factor;
}

}  // namespace

Result<uint64_t> ParseByteSize(std::string_view text, std::string_view what) {
  const auto refuse = [&](std::string_view why) -> Status {
    return Status::InvalidArgument(fmt::format(
        "{} '{}' {}: a size is a number of bytes, or one with k, M, G, T (powers of 1000) or KiB, "
        "MiB, GiB, TiB (powers of 1024)",
        what, text, why));
  };
  const auto number_end = std::find_if(text.begin(), text.end(),
                                       [](char c) { return c != '.' && (c < '0' || c > '9'); });
  const std::string_view number = text.substr(0, static_cast<size_t>(number_end - text.begin()));
  const uint64_t factor = SuffixFactor(text.substr(number.size()));
  if (number.empty() || factor == 0) return refuse("is not a size");

  // A whole number stays exact; a fraction needs a suffix to mean something.
  const char* const stop = number.data() + number.size();
  if (number.find('.') == std::string_view::npos) {
    uint64_t value = 0;
    const auto parsed = std::from_chars(number.data(), stop, value);
    if (parsed.ec != std::errc() || value > (uint64_t{1} << 63) / factor) {
      return refuse("is too large");
    }
    if (value * factor > INT64_MAX) return refuse("is too large");
    return value * factor;
  }
  double value = 0;
  const auto parsed = std::from_chars(number.data(), stop, value, std::chars_format::fixed);
  if (parsed.ec != std::errc() || parsed.ptr != stop || factor == 1) {
    return refuse("is not a size");
  }
  value *= static_cast<double>(factor);
  if (value >= 9.2e18) return refuse("is too large");
  return static_cast<uint64_t>(value);
}

}  // namespace kvbed
