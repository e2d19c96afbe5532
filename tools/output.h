// Where a command's result goes: text or JSON to standard output, JSON to a file beside it.
#pragma once

#include <string>

#include "offload/status.h"
#include "tools/common_options.h"
#include "tools/result_json.h"

namespace kvbed {

// For commands with one result and no table: -o md and -o csv are usage errors, to be found before
// the work is done.
Status CheckSingleResultFormat(const OutputOptions& options);

Status EmitResult(const OutputOptions& options, const std::string& text, const Json& json);

}  // namespace kvbed
