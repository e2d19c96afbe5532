// kvbed report: rows of results as one HTML page that opens offline.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "offload/clock.h"
#include "offload/record_id.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/exit_code.h"
#include "tools/output_file.h"
#include "tools/report/report_files.h"
#include "tools/report/report_page.h"
#include "tools/report/report_rows.h"
#include "tools/version.h"

namespace kvbed {
namespace {

constexpr const char* kReportFooter =
    "The rows are what bench and sweep write with -o jsonl (or -o json), of any number of runs. "
    "The\n"
    "page holds all it needs and asks the network for nothing. It shows GB/s per context beside "
    "the\n"
    "ceilings of the same moment, time to first token with the context from which restoring beats\n"
    "recomputing, latency percentiles, restores beside an offload, the rounds of a steady state,\n"
    "sweeps, every row in a table, the environment, and rows that failed or are noisy. What was "
    "not\n"
    "measured is said to be so, with the reason. Rows of different --label, say of two disks, "
    "stand\n"
    "side by side with ratio and spread.\n"
    "\n"
    "Lines that are no rows are named and left out.\n"
    "Exit codes: 0 written; 2 usage; 4 a file can't be read, or none has a row.\n"
    "\n"
    "Examples:\n"
    "  kvbed bench --shape llama3-8b -c 1k-32k*2 --store slab:/data/kv --label new -o jsonl "
    ">new.jsonl\n"
    "  kvbed report old.jsonl new.jsonl --out report.html";

struct ReportOptions {
  std::vector<std::string> files;
  std::string title = "kvbed report";
  std::string out_file;
};

Json DataOf(const ReportOptions& options, const ReportRows& rows) {
  Json data;
  data["title"] = options.title;
  data["made_at"] = Iso8601(UnixNs());
  data["kvbed_version"] = VersionNumber();
  data["git_commit"] = GitCommit();
  data["left_out"] = rows.left_out;
  data["rows"] = rows.rows;
  return data;
}

Result<int> Run(const ReportOptions& options) {
  const bool to_stdout = options.out_file == "-";
  if (!to_stdout) {
    KVBED_RETURN_IF_ERROR(
        CheckOutputFile("--out", options.out_file, OutputKind::kAny, options.files));
  }
  if (ReportChartLibrary().empty()) {
    return Status::NotSupported(
        "this kvbed was built without Chart.js, which draws the charts: install Debian's "
        "libjs-chart.js, run cmake again and build");
  }
  KVBED_ASSIGN_OR_RETURN(const ReportRows rows, ReadReportRows(options.files));
  for (const std::string& note : rows.left_out) Complain(note);
  const std::string nonce = fmt::format("{:016x}{:016x}", RandomId(), RandomId());
  const std::string page = ReportPage(DataOf(options, rows), nonce);
  KVBED_RETURN_IF_ERROR(to_stdout ? Print(page) : ReplaceFile(options.out_file, page));
  return kExitOk;
}

}  // namespace

void AddReportCommand(CommandLine& line) {
  ReportOptions& options = line.Own<ReportOptions>();
  OptionSet set = line.AddCommand("report", "one HTML page of bench's and sweep's rows");
  set.Group("Report");
  set.Required(set.Arguments("FILES", "files of rows, one JSON object a line", options.files));
  set.Required(set.Text("--out", "FILE", "the page; - for standard output", options.out_file));
  set.Text("--title", "TEXT", "the page's heading [kvbed report]", options.title);
  set.Footer(kReportFooter);
  line.SetFunction("report", [&options] { return Run(options); });
}

}  // namespace kvbed
