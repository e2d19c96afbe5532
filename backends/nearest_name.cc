#include "backends/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace kvbed {
namespace {

// Characters put in, left out, replaced, or changed over with their neighbour.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view NearestName(std::string_view text, const std::vector<std::string_view>& known) {
  std::string_view nearest;
  size_t nearest_distance = 0;
  for (std::string_view name : known) {
    if (!text.empty() && (name.starts_with(text) || text.starts_with(name))) return name;
    const size_t distance = EditDistance(text, name);
    if (distance * 2 > name.size()) continue;
    if (nearest.empty() || distance < nearest_distance) {
      nearest = name;
      nearest_distance = distance;
    }
  }
  return nearest;
}

}  // namespace kvbed
