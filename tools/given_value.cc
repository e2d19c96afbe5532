#include "tools/given_value.h"

#include <fmt/format.h>

#include <charconv>

namespace kvbed {
namespace {

constexpr double kGivenLeast = 1e-6;
constexpr double kGivenMost = 1e12;

}  // namespace

Result<SourcedValue> ParseGivenValue(std::string_view option, std::string_view text) {
  const size_t comma = text.find(',');
  const std::string_view number = text.substr(0, comma);
  SourcedValue given;
  const char* const end = number.data() + number.size();
  const auto [stop, error] =
      std::from_chars(number.data(), end, given.value, std::chars_format::fixed);
  const bool in_range = given.value >= kGivenLeast && given.value <= kGivenMost;
  if (number.empty() || error != std::errc() || stop != end || !in_range) {
    return Status::InvalidArgument(fmt::format(
        "{} takes a number above 0, and after a comma where it is from, as in 9000,datasheet; not "
        "'{}'",
        option, text));
  }
  given.source = "given";
  if (comma == std::string_view::npos) return given;
  if (comma + 1 == text.size()) {
    return Status::InvalidArgument(
        fmt::format("{}: nothing follows the comma of '{}': name the source or leave the comma out",
                    option, text));
  }
  given.source += fmt::format(": {}", text.substr(comma + 1));
  return given;
}

}  // namespace kvbed
