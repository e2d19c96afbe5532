// The sentence that a plan ends in: what a restore takes, what a prefill takes, whether the SSD
// helps, and the break-even bandwidth.
#pragma once

#include <string>

#include "tools/plan/plan_rows.h"

namespace kvbed {

// About one user at the plan's longest context. What isn't known is named, and the answer is then
// given as a function of it.
std::string PlanAnswer(const Plan& plan);

}  // namespace kvbed
