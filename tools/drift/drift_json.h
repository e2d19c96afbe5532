// Drift as result files have it: the drift of kvbed-run/1, and kvbed-drift/1.
#pragma once

#include "tools/drift/drift_report.h"
#include "tools/drift/drift_run.h"
#include "tools/result_json.h"

namespace kvbed {

Json DriftJson(const DriftReport& drift);

// kvbed-drift/1; env is filled in by the caller.
Json DriftRunJson(const DriftRun& run);

}  // namespace kvbed
