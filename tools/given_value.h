// A number above 0 as people give it on the command line, with where it is from: "9000", or
// "9000,data sheet".
#pragma once

#include <string>
#include <string_view>

#include "offload/status.h"

namespace kvbed {

inline constexpr double kGivenMost = 1e12;

// A number and where it is from: "given", "given: SOURCE", or the row that was measured.
struct SourcedValue {
  double value = 0;  // above 0
  std::string source;
};

// `option` is named when the text is refused: a number from 0.000001 to 10^12, and whatever follows
// a comma as its source. The source of the result begins with "given".
Result<SourcedValue> ParseGivenValue(std::string_view option, std::string_view text);

// The number alone, from 0.000001 to `most`.
Result<double> ParseGivenNumber(std::string_view option, std::string_view text,
                                double most = kGivenMost);

}  // namespace kvbed
