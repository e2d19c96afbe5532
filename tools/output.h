// Where a command's result goes: text or JSON to standard output, JSON to a file beside it.
#pragma once

#include <string>

#include "offload/status.h"
#include "tools/common_options.h"
#include "tools/output_file.h"
#include "tools/result_json.h"

namespace kvbed {

// Before the work: usage errors for -o md and -o csv where the result is no table, and what
// CheckOutputFile says of --json.
Status CheckOutput(const OutputOptions& options, TableFormats tables, const KeptPlaces& kept);

// The files that a model is read from.
KeptPlaces FilesOfModel(const std::string& model);

// Each place gets the result also when the other fails; the error is the first one's.
Status EmitResult(const OutputOptions& options, const std::string& text, const Json& json);

}  // namespace kvbed
