// A plan as people read it: text for a terminal, or Markdown.
#pragma once

#include <string>

#include "tools/plan/plan_rows.h"

namespace kvbed {

// What the shape is, its sizes, its variants, what fits, the claim, and the answer as the last
// line. Markdown has the same facts as a list and tables.
enum class PlanStyle { kText, kMarkdown };
std::string PlanReport(const Plan& plan, PlanStyle style);

}  // namespace kvbed
