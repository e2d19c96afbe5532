#include "tools/bench/row_writer.h"

#include "tools/console.h"

namespace kvbed {

Status RowWriter::Add(std::span<const Json> rows, const std::string& shown) {
  Status appended;
  std::string lines;
  for (const Json& row : rows) {
    rows_.push_back(row);
    lines += JsonLine(row) + "\n";
    if (out_file_ && appended.ok()) appended = AppendJsonLine(*out_file_, row);
  }
  switch (output_.format) {
    case OutputFormat::kText:
    case OutputFormat::kMarkdown:
    case OutputFormat::kCsv: KVBED_RETURN_IF_ERROR(Print(shown)); break;
    case OutputFormat::kJsonLines: KVBED_RETURN_IF_ERROR(Print(lines)); break;
    case OutputFormat::kJson: break;
  }
  return appended;
}

Status RowWriter::Finish() const {
  Status written;
  if (output_.json_file) written = WriteJsonFile(*output_.json_file, rows_);
  if (output_.format == OutputFormat::kJson) {
    KVBED_RETURN_IF_ERROR(Print(JsonPretty(rows_) + "\n"));
  }
  return written;
}

}  // namespace kvbed
