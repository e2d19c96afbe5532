#include "tools/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>

namespace kvbed {

Status CheckSingleResultFormat(const OutputOptions& options) {
  if (options.format != OutputFormat::kMarkdown && options.format != OutputFormat::kCsv) {
    return Status::Ok();
  }
  return Status::InvalidArgument(
      "--output md and csv are for tables; this takes text, json, jsonl");
}

Status EmitResult(const OutputOptions& options, const std::string& text, const Json& json) {
  const std::string out = options.format == OutputFormat::kText        ? text
                          : options.format == OutputFormat::kJsonLines ? JsonLine(json) + "\n"
                                                                       : JsonPretty(json) + "\n";
  if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size() || std::fflush(stdout) != 0) {
    return StatusFromErrno(errno, "write to standard output");
  }
  return options.json_file ? WriteJsonFile(*options.json_file, json) : Status::Ok();
}

}  // namespace kvbed
