#include "tools/given_value.h"

#include <fmt/format.h>

#include <charconv>

namespace kvbed {
namespace {

constexpr double kGivenLeast = 1e-6;

// `more`: what else the option takes.
Result<double> ParseAboveZero(std::string_view option, std::string_view text,
                              std::string_view number, double most, std::string_view more) {
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, value, std::chars_format::fixed);
  const bool in_range = value >= kGivenLeast && value <= most;
  if (!number.empty() && error == std::errc() && stop == end && in_range) return value;
  return Status::InvalidArgument(
      fmt::format("{} takes a number above 0 (from {:f} to {:.0f}, without an exponent){}, not "
                  "'{}'",
                  option, kGivenLeast, most, more, text));
}

}  // namespace

Result<double> ParseGivenNumber(std::string_view option, std::string_view text, double most) {
  return ParseAboveZero(option, text, text, most, "");
}

Result<SourcedValue> ParseGivenValue(std::string_view option, std::string_view text) {
  const size_t comma = text.find(',');
  SourcedValue given;
  KVBED_ASSIGN_OR_RETURN(
      given.value, ParseAboveZero(option, text, text.substr(0, comma), kGivenMost,
                                  ", and after a comma where it is from, as in 9000,datasheet"));
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
