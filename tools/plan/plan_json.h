// The fields of kvbed-plan/1, and its rows as CSV.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/plan/plan_rows.h"
#include "tools/result_json.h"

namespace kvbed {

// A time as result files have it. Nullopt from 2^63 ns on, 292 years.
std::optional<uint64_t> WholeNs(double seconds);

// Adds shapes[], rows[] and answer (a sentence for each shape) to a result. A row whose `own` is
// true is of the model itself, the others of what it would be with other numbers of KV heads.
void AddPlans(Json& result, const std::vector<Plan>& plans);

// The rows that AddPlans made, under one head; an empty field for a null.
std::string PlanCsv(const Json& result);

}  // namespace kvbed
