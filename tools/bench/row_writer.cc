#include "tools/bench/row_writer.h"

#include "tools/bench/bench_table.h"
#include "tools/console.h"
#include "tools/output.h"

namespace kvbed {

Status RowWriter::Add(const Json& row) {
  const bool first = rows_.empty();
  rows_.push_back(row);
  Status appended;
  if (out_file_) appended = AppendJsonLine(*out_file_, row);
  // A row that was measured is shown, whatever became of the file.
  KVBED_RETURN_IF_ERROR(Show(row, first));
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

Status RowWriter::Show(const Json& row, bool first) const {
  switch (output_.format) {
    case OutputFormat::kText: return Print((first ? "" : "\n") + BenchRowText(row));
    case OutputFormat::kMarkdown:
      return Print((first ? BenchEnvironmentLine(row) + "\n" + BenchMarkdownHead() : "") +
                   BenchMarkdownLine(row));
    case OutputFormat::kCsv: return Print((first ? BenchCsvHead() : "") + BenchCsvLine(row));
    case OutputFormat::kJsonLines: return Print(JsonLine(row) + "\n");
    case OutputFormat::kJson: break;
  }
  return Status::Ok();
}

}  // namespace kvbed
