#include "tools/plan/measured_rates.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/shape_names.h"

namespace kvbed {
namespace {

using RowJson = nlohmann::json;

// A row of llama3-8b as `kvbed bench` writes it, as far as a plan reads it.
RowJson MeasuredRow(uint64_t ctx_tokens, double gb_per_s) {
  return {{"schema", "kvbed-bench/1"},
          {"status", "ok"},
          {"publishable", true},
          {"model",
           {{"name", "llama3-8b"},
            {"layers", 32},
            {"heads", 32},
            {"kv_heads", 8},
            {"head_dim", 128},
            {"hidden", 4096}}},
          {"cell", {{"ctx_tokens", ctx_tokens}, {"store", "slab:/data/kv"}, {"direct", true}}},
          {"restore", {{"gb_per_s", gb_per_s}}},
          {"ttft", nullptr}};
}

RowJson Changed(RowJson row, const char* path, const RowJson& value) {
  row[RowJson::json_pointer(path)] = value;
  return row;
}

class MeasuredRatesTest : public testing::Test {
 protected:
  Result<MeasuredRates> ReadText(const std::string& text, const std::string& shape = "llama3-8b",
                                 uint64_t ctx_tokens = 131072) {
    std::ofstream(file_, std::ios::binary) << text;
    KVBED_ASSIGN_OR_RETURN(const MeasuredRowFile rows, MeasuredRowFile::Read(file_));
    return rows.RatesFor(*FindShape(shape), ctx_tokens);
  }
  Result<MeasuredRates> Read(const std::vector<RowJson>& rows,
                             const std::string& shape = "llama3-8b", uint64_t ctx_tokens = 131072) {
    std::string text;
    for (const RowJson& row : rows) text += row.dump() + "\n";
    return ReadText(text, shape, ctx_tokens);
  }

  TempDir dir_;
  const std::string file_ = dir_ / "rows.jsonl";
};

TEST_F(MeasuredRatesTest, TakesTheRowOfTheNearestContextAndSaysWhich) {
  const std::vector<RowJson> rows = {MeasuredRow(8192, 2), MeasuredRow(65536, 3),
                                     MeasuredRow(16384, 4)};
  const MeasuredRates rates = *Read(rows);
  EXPECT_EQ(rates.disk_gb_per_s.value, 3);
  EXPECT_EQ(rates.disk_gb_per_s.source,
            "measured by " + file_ + " line 2 (llama3-8b, 65,536 tokens, slab:/data/kv)");
  EXPECT_EQ(Read(rows, "llama3-8b", 8000)->disk_gb_per_s.value, 2);
}

TEST_F(MeasuredRatesTest, TakesTheLaterOfEquals) {
  EXPECT_EQ(Read({MeasuredRow(8192, 2), MeasuredRow(8192, 3)})->disk_gb_per_s.value, 3);
}

TEST_F(MeasuredRatesTest, TakesTheSameShapeBeforeANearerContext) {
  const RowJson other =
      Changed(Changed(MeasuredRow(131072, 9), "/model/layers", 80), "/model/name", "llama3-70b");
  EXPECT_EQ(Read({MeasuredRow(4096, 2), other})->disk_gb_per_s.value, 2);
  const MeasuredRates rates = *Read({other});
  EXPECT_EQ(rates.disk_gb_per_s.value, 9);
  EXPECT_NE(rates.disk_gb_per_s.source.find("another shape's records"), std::string::npos);
}

TEST_F(MeasuredRatesTest, TakesNoRowThatMeasuredNoDisk) {
  const RowJson good = MeasuredRow(8192, 2);
  const std::pair<RowJson, const char*> refused[] = {
      {Changed(good, "/status", "failed"), "status isn't ok"},
      {Changed(good, "/schema", "kvbed-sweep/1"), "no row of kvbed bench"},
      {Changed(good, "/restore", nullptr), "no restore.gb_per_s"},
      {Changed(good, "/restore/gb_per_s", nullptr), "no restore.gb_per_s"},
      {Changed(good, "/restore/gb_per_s", "fast"), "no restore.gb_per_s"},
      {Changed(good, "/restore/gb_per_s", -2), "no restore.gb_per_s"},
      {Changed(good, "/restore/gb_per_s", 0), "no restore.gb_per_s"},
      {Changed(good, "/restore/gb_per_s", 1e300), "no restore.gb_per_s"},
      {Changed(good, "/cell/ctx_tokens", 1e300), "no cell.ctx_tokens"},
      {Changed(good, "/cell/ctx_tokens", nullptr), "no cell.ctx_tokens"},
      {Changed(good, "/cell/store", "memory:"), "a store in memory"},
      {Changed(good, "/cell/direct", false), "page cache"},
      {RowJson::object(), "no row of kvbed bench"},
  };
  for (const auto& [row, why] : refused) {
    EXPECT_TRUE(FailsWith(Read({row}).status(), StatusCode::kNotFound, why));
    // A good one beside it is taken.
    EXPECT_EQ(Read({row, good, row})->disk_gb_per_s.value, 2) << why;
  }
}

TEST_F(MeasuredRatesTest, SaysThatARowIsNotPublishable) {
  const MeasuredRates rates = *Read({Changed(MeasuredRow(8192, 2), "/publishable", false)});
  EXPECT_NE(rates.disk_gb_per_s.source.find("not publishable"), std::string::npos);
}

TEST_F(MeasuredRatesTest, TakesAPrefillOfTheSameShapeOnly) {
  RowJson row = MeasuredRow(8192, 2);
  EXPECT_FALSE(Read({row})->prefill_tok_per_s);
  EXPECT_NE(Read({row})->no_prefill_reason, "");
  row["ttft"] = {{"recompute", {{"prefill_ns", 2'000'000'000}, {"device", "EPYC"}}}};
  const MeasuredRates rates = *Read({row});
  EXPECT_DOUBLE_EQ(rates.prefill_tok_per_s->value, 4096);
  EXPECT_NE(rates.prefill_tok_per_s->source.find("measured by"), std::string::npos);
  EXPECT_NE(rates.prefill_tok_per_s->source.find("on EPYC"), std::string::npos);
  row["ttft"]["recompute"]["given"] = true;
  EXPECT_TRUE(Read({row})->prefill_tok_per_s->source.starts_with("given by"));
  EXPECT_FALSE(Read({row}, "llama3-70b")->prefill_tok_per_s);
  row["ttft"]["recompute"]["prefill_ns"] = 0;
  EXPECT_FALSE(Read({row})->prefill_tok_per_s);
}

TEST_F(MeasuredRatesTest, ReadsOneListToo) {
  const RowJson list = {MeasuredRow(8192, 2), MeasuredRow(65536, 3)};
  EXPECT_EQ(ReadText(list.dump(2))->disk_gb_per_s.value, 3);
  EXPECT_NE(ReadText("\n " + list.dump())->disk_gb_per_s.source.find("row 2"), std::string::npos);
  EXPECT_TRUE(FailsWith(ReadText("[{}, 7]").status(), StatusCode::kNotFound, "row 2"));
  EXPECT_TRUE(FailsWith(ReadText("[{}, ").status(), StatusCode::kNotFound, "cut off"));
}

TEST_F(MeasuredRatesTest, NamesTheLineThatIsNoJsonAndTakesTheOthers) {
  const std::string line = MeasuredRow(8192, 2).dump();
  const MeasuredRates rates = *ReadText(line + "\n\n" + line.substr(0, 40));
  EXPECT_EQ(rates.disk_gb_per_s.value, 2);
  ASSERT_EQ(rates.left_out.size(), 1u);
  EXPECT_NE(rates.left_out[0].find("line 3: is cut off"), std::string::npos) << rates.left_out[0];
  EXPECT_TRUE(Read({MeasuredRow(8192, 2)})->left_out.empty());
  for (const std::string& bad :
       {std::string("7"), std::string("null"), std::string("\"x\""), std::string("\xff\xfe"),
        std::string("{\"a\":1e999}"), std::string("x\0y", 3), std::string(1'000'000, '{')}) {
    const MeasuredRates others = *ReadText(line + "\n" + bad + "\n");
    EXPECT_NE(others.left_out.at(0).find("line 2: is"), std::string::npos);
    EXPECT_TRUE(FailsWith(ReadText(bad).status(), StatusCode::kNotFound, "line 1: is"));
  }
}

TEST_F(MeasuredRatesTest, SurvivesHostileRows) {
  const std::string deep =
      "{\"schema\":" + std::string(500'000, '[') + std::string(500'000, ']') + "}";
  EXPECT_TRUE(FailsWith(ReadText(deep).status(), StatusCode::kNotFound));
  RowJson row = Changed(MeasuredRow(8192, 2), "/model/name", "\x1b[31m<script>\n");
  EXPECT_EQ(Read({row})->disk_gb_per_s.source.find('\x1b'), std::string::npos);
  row = Changed(row, "/model", RowJson::array({1}));
  row = Changed(row, "/ttft", 7);
  EXPECT_EQ(Read({row})->disk_gb_per_s.value, 2);
  EXPECT_TRUE(FailsWith(Read({Changed(row, "/cell", RowJson::array())}).status(),
                        StatusCode::kNotFound, "cell.ctx_tokens"));
}

TEST_F(MeasuredRatesTest, SaysWhatIsWrongWithTheFile) {
  EXPECT_TRUE(FailsWith(MeasuredRowFile::Read(dir_ / "none").status(), StatusCode::kNotFound,
                        "kvbed bench"));
  EXPECT_TRUE(
      FailsWith(MeasuredRowFile::Read(dir_.path()).status(), StatusCode::kIoError, "directory"));
  EXPECT_TRUE(FailsWith(MeasuredRowFile::Read("").status(), StatusCode::kInvalidArgument,
                        "needs a file's name"));
  EXPECT_TRUE(FailsWith(ReadText("").status(), StatusCode::kNotFound, "it is empty"));
  EXPECT_TRUE(FailsWith(Read(std::vector<RowJson>(9, RowJson::object())).status(),
                        StatusCode::kNotFound, "and 6 more"));
}

}  // namespace
}  // namespace kvbed
