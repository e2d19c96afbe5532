// A restore's summary as JSON, both ways: for result files and for the report of a fresh process.
#pragma once

#include "offload/numeric_environment.h"
#include "offload/status.h"
#include "tools/result_json.h"
#include "tools/run_report.h"

namespace kvbed {

// RESULTS' "restore" object: pid, blocks, read_ns, verify_ns, wall_ns, gb_per_s, kv_gb_per_s,
// prefill_tokens_after_restore, and what else a restore has to tell.
Json RestoreJson(const RestoreSummary& summary);
Json NumericEnvironmentJson(const NumericEnvironment& environment);

// What a fresh process sends: {restore, findings, failed_reads, environment}.
Json ResumeSummaryJson(const RestoreSummary& summary, const NumericEnvironment& environment);
// I/O error for anything that ResumeSummaryJson doesn't make.
Result<RestoreSummary> RestoreSummaryFromJson(const Json& json);
Result<NumericEnvironment> EnvironmentFromJson(const Json& json);

}  // namespace kvbed
