// What somebody probably meant to write: the known name that is nearest to a wrong one.
#pragma once

#include <string_view>
#include <vector>

namespace kvbed {

// The one of `known` that `text` was probably meant to be; empty when none is near.
std::string_view NearestName(std::string_view text, const std::vector<std::string_view>& known);

}  // namespace kvbed
