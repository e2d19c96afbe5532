#include "tools/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

namespace kvbed {
namespace {

constexpr uint64_t kContextsMax = 4096;
constexpr uint64_t kTokensMax = uint64_t{1} << 40;

struct Suffix {
  std::string_view text;
  uint64_t factor;
};

constexpr Suffix kTokenSuffixes[] = {
    {"", 1},
    {"k", uint64_t{1} << 10},
    {"K", uint64_t{1} << 10},
    {"m", uint64_t{1} << 20},
    {"M", uint64_t{1} << 20},
};

// A number above 0 with one of the suffixes, as a whole number; nullopt for anything else.
std::optional<uint64_t> ParseScaled(std::string_view text, std::span<const Suffix> suffixes) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !(number > 0)) return std::nullopt;
  const std::string_view unit(stop, static_cast<size_t>(end - stop));
  for (const Suffix& suffix : suffixes) {
    if (suffix.text != unit) continue;
    const double value = number * static_cast<double>(suffix.factor);
    if (value > static_cast<double>(kTokensMax) || value < 1 || value != std::floor(value))
      return std::nullopt;
    return static_cast<uint64_t>(value);
  }
  return std::nullopt;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

Status BadContext(std::string_view text) {
  return Status::InvalidArgument(
      fmt::format("'{}' is no list of token counts: write 4k, or 1k,4k, or 1k-128k*2, or 88-256+8 "
                  "(k = 1024)",
                  text));
}

// "FIRST-LAST*FACTOR" or "FIRST-LAST+STEP".
Result<std::vector<uint64_t>> ParseRange(std::string_view text) {
  const size_t dash = text.find('-');
  const size_t op = text.find_first_of("*+", dash);
  if (dash == std::string_view::npos || op == std::string_view::npos) return BadContext(text);
  const auto first = ParseScaled(text.substr(0, dash), kTokenSuffixes);
  const auto last = ParseScaled(text.substr(dash + 1, op - dash - 1), kTokenSuffixes);
  const auto step = ParseScaled(text.substr(op + 1), kTokenSuffixes);
  const bool multiply = text[op] == '*';
  if (!first || !last || !step || *first > *last || (multiply && *step < 2)) {
    return BadContext(text);
  }
  std::vector<uint64_t> values;
  for (uint64_t value = *first; value <= *last; value = multiply ? value * *step : value + *step) {
    if (values.size() == kContextsMax) return BadContext(text);
    values.push_back(value);
  }
  return values;
}

}  // namespace

Result<uint64_t> ParseTokenCount(std::string_view text) {
  if (const auto value = ParseScaled(text, kTokenSuffixes)) return *value;
  return Status::InvalidArgument(fmt::format(
      "'{}' is no token count: write 4096 or 4k (k = 1024), 1 to {}", text, kTokensMax));
}

Result<uint64_t> ParseTokenCountOrZero(std::string_view text) {
  if (text == "0") return uint64_t{0};
  if (const auto value = ParseScaled(text, kTokenSuffixes)) return *value;
  return Status::InvalidArgument(
      fmt::format("'{}' is no count: write 0, 4096 or 4k (k = 1024)", text));
}

Result<std::vector<uint64_t>> ParseTokenCounts(std::string_view text) {
  std::vector<uint64_t> values;
  for (std::string_view part : Split(text, ',')) {
    if (const auto value = ParseScaled(part, kTokenSuffixes)) {
      values.push_back(*value);
      continue;
    }
    KVBED_ASSIGN_OR_RETURN(std::vector<uint64_t> range, ParseRange(part));
    values.insert(values.end(), range.begin(), range.end());
    if (values.size() > kContextsMax) return BadContext(text);
  }
  return values;
}

Result<std::vector<int32_t>> ParseTokenIds(std::string_view text) {
  std::vector<int32_t> ids;
  for (std::string_view part : Split(text, ',')) {
    int32_t id = 0;
    const char* end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, id);
    if (part.empty() || error != std::errc() || stop != end || id < 0) {
      return Status::InvalidArgument(fmt::format(
          "'{}' in --prompt-ids is no token id: write numbers, as in 504,3575,282", part));
    }
    ids.push_back(id);
  }
  return ids;
}

}  // namespace kvbed
