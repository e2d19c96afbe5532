#include "tools/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "backends/nearest_name.h"

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

constexpr Suffix kSizeSuffixes[] = {
    {"", 1},
    {"k", uint64_t{1} << 10},
    {"K", uint64_t{1} << 10},
    {"KiB", uint64_t{1} << 10},
    {"m", uint64_t{1} << 20},
    {"M", uint64_t{1} << 20},
    {"MiB", uint64_t{1} << 20},
    {"g", uint64_t{1} << 30},
    {"G", uint64_t{1} << 30},
    {"GiB", uint64_t{1} << 30},
};

// A kind of list: how its numbers may end, and what is said of one that is wrong.
struct NumberList {
  std::span<const Suffix> suffixes;
  const char* right_form;
};

constexpr NumberList kTokenList = {
    kTokenSuffixes,
    "is no list of token counts: write 4k, or 1k,4k, or 1k-128k*2, or 88-256+8 (k = 1024)"};
constexpr NumberList kSizeList = {
    kSizeSuffixes, "is no list of sizes: write 64k, or 64k,1m, or 64k-4m*2 (k = 1024)"};
constexpr NumberList kDepthList = {kTokenSuffixes,
                                   "is no list of depths: write 16, or 1,4,16,64, or 1-64*2"};

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

Status BadList(std::string_view text, const NumberList& list) {
  return Status::InvalidArgument(fmt::format("'{}' {}", text, list.right_form));
}

// "FIRST-LAST*FACTOR" or "FIRST-LAST+STEP".
Result<std::vector<uint64_t>> ParseRange(std::string_view text, const NumberList& list) {
  const size_t dash = text.find('-');
  const size_t op = text.find_first_of("*+", dash);
  if (dash == std::string_view::npos || op == std::string_view::npos) return BadList(text, list);
  const auto first = ParseScaled(text.substr(0, dash), list.suffixes);
  const auto last = ParseScaled(text.substr(dash + 1, op - dash - 1), list.suffixes);
  const auto step = ParseScaled(text.substr(op + 1), list.suffixes);
  const bool multiply = text[op] == '*';
  if (!first || !last || !step || *first > *last || (multiply && *step < 2)) {
    return BadList(text, list);
  }
  std::vector<uint64_t> values;
  for (uint64_t value = *first; value <= *last;) {
    if (values.size() == kContextsMax) return BadList(text, list);
    values.push_back(value);
    if (multiply && value > *last / *step) break;  // the product might not fit into 64 bits
    value = multiply ? value * *step : value + *step;
  }
  return values;
}

Result<std::vector<uint64_t>> ParseNumbers(std::string_view text, const NumberList& list) {
  std::vector<uint64_t> values;
  for (std::string_view part : Split(text, ',')) {
    if (const auto value = ParseScaled(part, list.suffixes)) {
      values.push_back(*value);
      continue;
    }
    KVBED_ASSIGN_OR_RETURN(std::vector<uint64_t> range, ParseRange(part, list));
    values.insert(values.end(), range.begin(), range.end());
    if (values.size() > kContextsMax) return BadList(text, list);
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
  return ParseNumbers(text, kTokenList);
}

Result<std::vector<uint64_t>> ParseBlockSizes(std::string_view text) {
  return ParseNumbers(text, kSizeList);
}

Result<std::vector<uint64_t>> ParseDepths(std::string_view text) {
  return ParseNumbers(text, kDepthList);
}

Result<std::vector<std::string>> ParseChoices(std::string_view text,
                                              const std::vector<std::string>& allowed) {
  const std::vector<std::string_view> names(allowed.begin(), allowed.end());
  std::vector<std::string> chosen;
  for (std::string_view part : Split(text, ',')) {
    if (std::find(allowed.begin(), allowed.end(), part) == allowed.end()) {
      const std::string_view near = NearestName(part, names);
      return Status::InvalidArgument(
          fmt::format("'{}' is none of {}{}", part, fmt::join(allowed, ", "),
                      near.empty() ? "" : fmt::format(": did you mean {}?", near)));
    }
    if (std::find(chosen.begin(), chosen.end(), part) != chosen.end()) {
      return Status::InvalidArgument(fmt::format("{} stands twice in '{}'", part, text));
    }
    chosen.emplace_back(part);
  }
  return chosen;
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
