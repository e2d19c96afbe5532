// The order of a device's operations, by parts of the lines of its trace.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace kvbed {

// The first, or the last, line with this part; the trace's length and a failure when there is none.
inline size_t Position(const std::vector<std::string>& trace, std::string_view part,
                       bool last = false) {
  size_t position = trace.size();
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].find(part) == std::string::npos) continue;
    position = i;
    if (!last) break;
  }
  EXPECT_LT(position, trace.size()) << part;
  return position;
}

inline size_t CountOf(const std::vector<std::string>& trace, std::string_view part) {
  return static_cast<size_t>(std::count_if(
      trace.begin(), trace.end(),
      [part](const std::string& line) { return line.find(part) != std::string::npos; }));
}

}  // namespace kvbed
