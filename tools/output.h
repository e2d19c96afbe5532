// Where a command's result goes: text or JSON to standard output, JSON to a file beside it.
#pragma once

#include <string>

#include "offload/status.h"
#include "tools/common_options.h"
#include "tools/result_json.h"

namespace kvbed {

// Before the work: usage errors for -o md and -o csv where the result is no table, and what
// CheckOutputFile says of --json. `store_spec` is the command's, empty where it has no store.
Status CheckOutput(const OutputOptions& options, TableFormats tables,
                   const std::string& store_spec);

// Each place gets the result also when the other fails; the error is the first one's.
Status EmitResult(const OutputOptions& options, const std::string& text, const Json& json);

}  // namespace kvbed
