#include "tests/fuzz/fuzz_targets.h"
#include "tools/report/report_rows.h"

namespace kvbed {

bool FuzzReportRows(Bytes input) {
  ReportRows rows;
  if (!AddReportRows("rows.jsonl", AsText(input), rows).ok()) return false;
  // Whatever a row holds, it can be written again.
  (void)rows.rows.dump();
  return !rows.rows.empty();
}

}  // namespace kvbed
