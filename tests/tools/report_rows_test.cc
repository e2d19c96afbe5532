// Rows of a report as they come from files: whole, cut off, foreign, hostile, too many.
#include "tools/report/report_rows.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/row_file.h"

namespace kvbed {
namespace {

constexpr const char* kBench = R"({"schema":"kvbed-bench/1","cell":{"ctx_tokens":1024}})";
constexpr const char* kSweep = R"({"schema":"kvbed-sweep/1","cell":{"iodepth":4}})";

ReportRows RowsOf(const std::string& text) {
  ReportRows rows;
  EXPECT_OK(AddReportRows("a.jsonl", text, rows));
  return rows;
}

// The only note, or all of them.
std::string NotesOf(const std::string& text) {
  std::string notes;
  for (const std::string& note : RowsOf(text).left_out) notes += note + "\n";
  return notes;
}

TEST(ReportRows, AreOneALineWithTheirPlace) {
  const ReportRows rows = RowsOf(std::string(kBench) + "\r\n\n  " + kSweep + "\n");
  ASSERT_EQ(rows.rows.size(), 2u);
  EXPECT_TRUE(rows.left_out.empty());
  EXPECT_EQ(rows.rows[0]["line"], 1);
  EXPECT_EQ(rows.rows[1]["line"], 3);
  EXPECT_EQ(rows.rows[1]["file"], "a.jsonl");
  EXPECT_EQ(rows.rows[1]["row"]["cell"]["iodepth"], 4);
}

TEST(ReportRows, AlsoComeAsOneList) {
  EXPECT_EQ(RowsOf("[\n" + std::string(kBench) + ",\n" + kSweep + "]\n").rows.size(), 2u);
  EXPECT_EQ(NotesOf("[" + std::string(kBench) + ","),
            "a.jsonl line 1: begins a JSON list that is cut off, wrong, or too large; left out\n");
}

TEST(ReportRows, ThatAreCutOffAreNamedAndTheOthersStay) {
  const std::string cut = std::string(kBench) + "\n" + std::string(kBench).substr(0, 30);
  EXPECT_EQ(RowsOf(cut).rows.size(), 1u);
  EXPECT_EQ(NotesOf(cut), "a.jsonl line 2: is cut off or no JSON object; left out\n");
  EXPECT_EQ(NotesOf(std::string("{]}\n") + kBench),
            "a.jsonl line 1: is no JSON object; left out\n");
}

TEST(ReportRows, OfAnotherSchemaAreOneNote) {
  const std::string foreign = R"({"schema":"kvbed-run/1","cell":{}})";
  const ReportRows rows = RowsOf(foreign + "\n" + kBench + "\n" + foreign + "\n");
  EXPECT_EQ(rows.rows.size(), 1u);
  ASSERT_EQ(rows.left_out.size(), 1u);
  EXPECT_EQ(rows.left_out[0],
            "a.jsonl lines 1, 3: is of schema kvbed-run/1, and a report shows kvbed-bench/1 and "
            "kvbed-sweep/1; left out");
  EXPECT_NE(NotesOf(R"({"schema":"kvbed-bench/2","cell":{}})").find("kvbed-bench/2"),
            std::string::npos);
}

TEST(ReportRows, NeedASchemaAndACell) {
  EXPECT_NE(NotesOf("{}").find("has no schema"), std::string::npos);
  EXPECT_NE(NotesOf("7").find("no JSON object"), std::string::npos);
  EXPECT_NE(NotesOf(R"({"schema":"kvbed-bench/1"})").find("has no cell"), std::string::npos);
  EXPECT_NE(NotesOf(R"({"schema":"kvbed-bench/1","cell":3})").find("has no cell"),
            std::string::npos);
}

TEST(ReportRows, ThatAreDeepOrLongAreNotRead) {
  const std::string deep = R"({"schema":"kvbed-bench/1","cell":{},"x":)" +
                           std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_EQ(NotesOf(deep), "a.jsonl line 1: is no JSON object; left out\n");
  const std::string filler(kRowLineBytesMax, ' ');
  EXPECT_NE(NotesOf("{" + filler + "}").find("is longer than"), std::string::npos);
  // Brackets in a text nest nothing.
  EXPECT_EQ(
      RowsOf(R"({"schema":"kvbed-bench/1","cell":{"label":")" + std::string(100, '[') + "\"}}")
          .rows.size(),
      1u);
}

TEST(ReportRows, WithManyFaultsGetFewNotes) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += R"({"schema":"other/)" + std::to_string(i) + R"(","cell":{}})" + "\n";
  }
  const ReportRows rows = RowsOf(text);
  EXPECT_EQ(rows.left_out.size(), 21u);
  EXPECT_EQ(rows.left_out.back(), "a.jsonl: 980 more reasons to leave out lines");
}

TEST(ReportRows, BeyondWhatAPageCanShowAreRefused) {
  std::string text;
  for (uint64_t i = 0; i < kReportRowsMax; ++i) text += std::string(kBench) + "\n";
  EXPECT_EQ(RowsOf(text).rows.size(), kReportRowsMax);
  ReportRows rows;
  EXPECT_TRUE(FailsWith(AddReportRows("a.jsonl", text + kBench, rows), StatusCode::kCorruption,
                        "a.jsonl line 10001"));
}

TEST(ReportRows, KeepWholeNumbersThatABrowserWouldRound) {
  const ReportRows rows = RowsOf(
      R"({"schema":"kvbed-bench/1","cell":{},"seed":18446744073709551615,"n":[9007199254740992]})");
  EXPECT_EQ(rows.rows[0]["row"]["seed"], "18446744073709551615");
  EXPECT_EQ(rows.rows[0]["row"]["n"][0], 9007199254740992u);
}

TEST(ReportRows, OfFilesWithoutOneAreAnError) {
  TempDir dir;
  std::ofstream(dir / "empty.jsonl");
  std::ofstream(dir / "text.jsonl") << "hello\n";
  std::ofstream(dir / "rows.jsonl") << kBench << "\n";
  EXPECT_TRUE(FailsWith(ReadReportRows({dir / "empty.jsonl", dir / "text.jsonl"}).status(),
                        StatusCode::kCorruption, "empty.jsonl: is empty; left out, and 1 more"));
  EXPECT_TRUE(
      FailsWith(ReadReportRows({dir / "no.jsonl"}).status(), StatusCode::kNotFound, "no.jsonl"));
  EXPECT_FALSE(ReadReportRows({dir.path()}).ok());
  EXPECT_TRUE(
      FailsWith(ReadReportRows({"/dev/zero"}).status(), StatusCode::kCorruption, "more than"));
  ASSERT_OK_AND_ASSIGN(const ReportRows rows,
                       ReadReportRows({dir / "text.jsonl", dir / "rows.jsonl"}));
  EXPECT_EQ(rows.rows.size(), 1u);
  EXPECT_EQ(rows.left_out.size(), 1u);
}

}  // namespace
}  // namespace kvbed
