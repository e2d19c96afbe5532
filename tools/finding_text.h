// A finding as people read it.
#pragma once

#include <string>
#include <vector>

#include "offload/finding.h"

namespace kvbed {

// "FINDING   payload: tokens 0 to 15: ...", then what was expected and found, then where.
std::vector<std::string> FindingLines(const Finding& finding);

}  // namespace kvbed
