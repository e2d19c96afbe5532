// The forms of a plan: text, Markdown, JSON, CSV.
#include "tools/plan/plan_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/json_names.h"
#include "tests/support/status_matchers.h"
#include "tools/csv_field.h"
#include "tools/plan/plan_json.h"
#include "tools/shape_names.h"

namespace kvbed {
namespace {

Plan PlanOf(const std::string& shape, uint32_t tp = 1) {
  PlanRequest request;
  request.shape = *FindShape(shape);
  request.ctx = {4096, 131072};
  request.users = {1, 8};
  request.tp = tp;
  request.memory_bytes = uint64_t{80} << 30;
  request.claim_seconds = SourcedValue{2, "given: a\nblog"};
  auto plan = MakePlan(request);
  EXPECT_OK(plan);
  return plan.ok() ? *plan : Plan{};
}

bool Says(const Plan& plan, const std::string& text, PlanStyle style = PlanStyle::kText) {
  return PlanReport(plan, style).find(text) != std::string::npos;
}

TEST(PlanReport, SaysWhatTheShapeIs) {
  const Plan plan = PlanOf("llama3-70b");
  EXPECT_TRUE(Says(plan, "80 layers, 64 query and 8 KV heads (GQA), head dim 128"));
  EXPECT_TRUE(Says(plan, "70,553,706,496 parameters, bf16: 141,107,412,992 bytes"));
  EXPECT_TRUE(Says(plan, "327,680 bytes a token, bf16: 2 x 80 layers x 8 KV heads x 128 dims"));
  EXPECT_TRUE(Says(plan, "made for 8,192 tokens"));
  EXPECT_FALSE(Says(PlanOf("llama3.1-70b"), "made for"));
  EXPECT_FALSE(Says(plan, "Window"));
  EXPECT_FALSE(Says(plan, "Ranks"));
}

TEST(PlanReport, SaysWhatIsUnusual) {
  EXPECT_TRUE(Says(PlanOf("mistral-7b-v0.1"), "32 of 32 layers keep the last 4,096 tokens"));
  EXPECT_TRUE(Says(PlanOf("mixtral-8x7b"), "all 8 experts"));
  EXPECT_TRUE(Says(PlanOf("deepseek-v3"), "latent 512 + rotary 64 dims"));
  EXPECT_TRUE(Says(PlanOf("llama3-70b", 4), "4 ranks: each holds 2 KV heads"));
  EXPECT_TRUE(Says(PlanOf("llama3-70b", 16), "2 ranks hold the same one"));
  EXPECT_TRUE(Says(PlanOf("deepseek-v3", 8), "each holds all 70,272 bytes a token"));
  EXPECT_TRUE(Says(PlanOf("llama3-70b"), "which don't fit"));
  EXPECT_FALSE(Says(PlanOf("llama3-8b"), "which don't fit"));
}

TEST(PlanReport, EndsInTheAnswerAndKeepsToItsLines) {
  for (PlanStyle style : {PlanStyle::kText, PlanStyle::kMarkdown}) {
    const std::string text = PlanReport(PlanOf("llama3-8b"), style);
    const size_t last = text.rfind('\n', text.size() - 2);
    EXPECT_NE(text.find("Answer", last), std::string::npos);
    // A line end in a source is shown, not obeyed.
    EXPECT_NE(text.find("given: a\\nblog"), std::string::npos);
  }
}

TEST(PlanJson, HasTheFixedNames) {
  Json json;
  AddPlans(json, {PlanOf("llama3-8b"), PlanOf("deepseek-v3")});
  // 3 variants and 1, of 2 contexts and 2 numbers of users.
  ASSERT_EQ(json["rows"].size(), 16u);
  for (const Json& row : json["rows"]) {
    EXPECT_TRUE(HasNames(row, {"shape", "variant", "kv_dtype", "tp", "ctx_tokens", "users",
                               "kv_bytes_per_token", "kv_bytes", "weight_bytes", "ratio"}));
    EXPECT_TRUE(NullsHaveReasons(row));
  }
  for (const Json& shape : json["shapes"]) EXPECT_TRUE(NullsHaveReasons(shape));
  EXPECT_EQ(json["rows"][2]["kv_bytes"], 17179869184u);
  EXPECT_EQ(json["rows"][2]["variant"], "GQA");
  EXPECT_EQ(json["rows"][2]["claim_gb_per_s"], 17.179869184 / 2);
  EXPECT_TRUE(json["rows"][2]["restore_ns"].is_null());
  EXPECT_TRUE(json["answer"].get<std::string>().starts_with("For 131,072 tokens of llama3-8b"));
}

TEST(PlanJson, TimesAreWholeNanoseconds) {
  EXPECT_EQ(WholeNs(1.5), 1500000000u);
  EXPECT_EQ(WholeNs(0), 0u);
  EXPECT_EQ(WholeNs(1e10), std::nullopt);
}

TEST(PlanCsv, HasALineForEachRowAndQuotesWhatNeedsIt) {
  Plan plan = PlanOf("llama3-8b");
  plan.request.shape.name = "a,\"b\"";
  Json json;
  AddPlans(json, {plan});
  const std::string csv = PlanCsv(json);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 13);
  EXPECT_TRUE(csv.starts_with("shape,variant,own,kv_heads,kv_dtype,"));
  EXPECT_EQ(csv.find("_reason"), std::string::npos);
  EXPECT_NE(csv.find("\n\"a,\"\"b\"\"\",GQA,true,8,bf16,bf16,1,4096,1,131072,536870912,"),
            std::string::npos)
      << csv;
}

TEST(CsvField, IsQuotedWhereItMustBe) {
  EXPECT_EQ(CsvField("plain text"), "plain text");
  EXPECT_EQ(CsvField("a\r"), "\"a\r\"");
  EXPECT_EQ(CsvField("a\"b"), "\"a\"\"b\"");
}

}  // namespace
}  // namespace kvbed
