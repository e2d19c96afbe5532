#include "tools/output.h"

#include <filesystem>

#include "tools/console.h"

namespace kvbed {

Status CheckOutput(const OutputOptions& options, TableFormats tables, const KeptPlaces& kept) {
  const bool table =
      options.format == OutputFormat::kMarkdown || options.format == OutputFormat::kCsv;
  if (table && tables == TableFormats::kRefused) {
    return Status::InvalidArgument(
        "-o md and csv are for the tables of bench, sweep, plan and drift; this takes text, json, "
        "jsonl");
  }
  if (!options.json_file) return Status::Ok();
  return CheckOutputFile("--json", *options.json_file, OutputKind::kAny, kept);
}

KeptPlaces FilesOfModel(const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(model, error)) return {model};
  KeptPlaces files;
  for (fs::directory_iterator entry(model, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool read = name.ends_with(".safetensors") || name.ends_with("config.json") ||
                      name.ends_with("index.json") || name.starts_with("tokenizer");
    if (read) files.push_back(entry->path().string());
  }
  return files;
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
