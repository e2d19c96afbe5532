#include "tools/output.h"

#include "tools/console.h"
#include "tools/output_file.h"
#include "tools/store_access.h"

namespace kvbed {

Status CheckOutput(const OutputOptions& options, TableFormats tables,
                   const std::string& store_spec) {
  const bool table =
      options.format == OutputFormat::kMarkdown || options.format == OutputFormat::kCsv;
  if (table && tables == TableFormats::kRefused) {
    return Status::InvalidArgument(
        "-o md and csv are for bench's table; this takes text, json, jsonl");
  }
  if (!options.json_file) return Status::Ok();
  return CheckOutputFile("--json", *options.json_file, OutputKind::kAny, PathOfSpec(store_spec));
}

Status EmitResult(const OutputOptions& options, const std::string& text, const Json& json) {
  Status written;
  if (options.json_file) written = WriteJsonFile(*options.json_file, json);
  const std::string out = options.format == OutputFormat::kText        ? text
                          : options.format == OutputFormat::kJsonLines ? JsonLine(json) + "\n"
                                                                       : JsonPretty(json) + "\n";
  const Status printed = Print(out);
  return written.ok() ? printed : written;
}

}  // namespace kvbed
