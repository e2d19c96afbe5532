// kvbed report as a user meets it: files, mistakes, exit codes. What the page shows is looked at in
// report_browser_test.cc.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/e2e/report_samples.h"
#include "tests/support/command.h"
#include "tests/support/require.h"
#include "tests/support/temp_dir.h"
#include "tools/report/report_files.h"

namespace kvbed {
namespace {

class Report : public testing::Test {
 protected:
  Report() { WriteSampleRows(dir_ / "rows.jsonl", LadderSampleRows()); }
  void SetUp() override {
    if (ReportChartLibrary().empty()) {
      KVBED_SKIP_OR_FAIL("built without Chart.js (Debian: libjs-chart.js)");
    }
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  TempDir dir_;
};

TEST_F(Report, WritesOnePage) {
  const CommandRun run = RunKvbed({"report", dir_ / "rows.jsonl", "--out", dir_ / "report.html"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out + run.err, "");
  const std::string page = Read(dir_ / "report.html");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_NE(page.find("record 7 differs"), std::string::npos);
}

TEST_F(Report, TakesSeveralFilesAndGoesToStandardOutput) {
  WriteSampleRows(dir_ / "sweep.jsonl", SweepSampleRows());
  const CommandRun run =
      RunKvbed({"report", dir_ / "rows.jsonl", dir_ / "sweep.jsonl", "--out", "-"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("kvbed-bench/1"), std::string::npos);
  EXPECT_NE(run.out.find("kvbed-sweep/1"), std::string::npos);
}

TEST_F(Report, NamesLinesThatAreNoRowsAndShowsTheOthers) {
  std::ofstream(dir_ / "cut.jsonl") << LadderSampleRows()[0].dump() << "\n{\"schema\":\"kvb";
  const CommandRun run = RunKvbed({"report", dir_ / "cut.jsonl", "--out", dir_ / "report.html"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_NE(run.err.find("cut.jsonl line 2: is cut off"), std::string::npos) << run.err;
  EXPECT_NE(Read(dir_ / "report.html").find("cut.jsonl line 2"), std::string::npos);
}

TEST_F(Report, WithoutARowWritesNothing) {
  std::ofstream(dir_ / "run.json") << R"({"schema":"kvbed-run/1"})"
                                   << "\n";
  std::ofstream(dir_ / "report.html") << "old";
  const CommandRun run = RunKvbed({"report", dir_ / "run.json", "--out", dir_ / "report.html"});
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_NE(run.err.find("kvbed-run/1"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_EQ(Read(dir_ / "report.html"), "old");
}

TEST_F(Report, ReplacesAnOldPageAndNoFileOfRows) {
  std::ofstream(dir_ / "report.html") << "old";
  EXPECT_EQ(RunKvbed({"report", dir_ / "rows.jsonl", "--out", dir_ / "report.html"}).exit_code, 0);
  EXPECT_NE(Read(dir_ / "report.html"), "old");
  const std::string rows = Read(dir_ / "rows.jsonl");
  const CommandRun run = RunKvbed({"report", dir_ / "rows.jsonl", "--out", dir_ / "rows.jsonl"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(Read(dir_ / "rows.jsonl"), rows);
}

TEST_F(Report, TellsMistakesInOneLine) {
  const std::vector<std::pair<std::vector<std::string>, int>> mistakes = {
      {{"report"}, 2},
      {{"report", dir_ / "rows.jsonl"}, 2},
      {{"report", "--out", dir_ / "report.html"}, 2},
      {{"report", dir_ / "no.jsonl", "--out", dir_ / "report.html"}, 4},
      {{"report", "/proc", "--out", dir_ / "report.html"}, 4},
      {{"report", dir_ / "rows.jsonl", "--out", dir_ / "no/report.html"}, 4},
      {{"report", dir_ / "rows.jsonl", "--out", ""}, 2},
      {{"report", dir_ / "rows.jsonl", "--ot", "x"}, 2},
  };
  for (const auto& [arguments, exit_code] : mistakes) {
    const CommandRun run = RunKvbed(arguments);
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
}

TEST(ReportWithoutChartJs, SaysWhatIsMissing) {
  if (!ReportChartLibrary().empty()) GTEST_SKIP() << "this build has Chart.js";
  const CommandRun run = RunKvbed({"report", "rows.jsonl", "--out", "-"});
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_NE(run.err.find("libjs-chart.js"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace kvbed
