// What `kvbed drift` says of arms that were measured: text, Markdown, CSV, JSON, and the limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/json_names.h"
#include "tools/drift/drift_json.h"
#include "tools/drift/drift_text.h"

namespace kvbed {
namespace {

class DriftReportTest : public ::testing::Test {
 protected:
  // Two layers of 2,000 elements in K and V, prompt and decode positions each; so many of the first
  // layer's V differ at decode positions.
  static KvDrift Drift(uint64_t differing) {
    KvDrift kv;
    const DriftPart same = {.elements = 1000, .identical = 1000};
    for (uint32_t layer = 0; layer < 2; ++layer)
      kv.layers.push_back({layer, same, same, same, same});
    if (differing == 0) return kv;
    kv.layers[0].v_decode.identical -= differing;
    kv.layers[0].v_decode.max_abs = 0.25;
    kv.layers[0].v_decode.max_ulp = 3;
    kv.first_layer = 0;
    kv.first_position = kv.first_decode_position = 105;
    return kv;
  }

  DriftReportTest() {
    run_.header = {"kvbed-drift/1", {"kvbed", "drift"}, 1, 1'700'000'000'000'000'000};
    run_.model.name = "small";
    run_.model.geometry = {
        .layers = 2, .kv_heads = 1, .head_dim = 4, .dtype = DType::kBf16, .block_tokens = 16};
    run_.prompt.ids.assign(104, 5);
    run_.new_tokens = 4;
    Add({DriftFactor::kBase, {104, 64, 2, "torch"}}, 1);
    Add({DriftFactor::kContext, {88, 64, 2, "torch"}}, 0);
    Add({DriftFactor::kPrefillChunk, {104, 1, 2, "torch"}}, 500);
    run_.arms.back().against_base = Drift(80);
    run_.begin = {.contexts = 2,
                  .differing = 1,
                  .shortest = 88,
                  .ctx_tokens = 104,
                  .position = 105,
                  .layer = 0,
                  .prompt_ctx_tokens = {},
                  .decode_ctx_tokens = 104};
  }

  void Add(const DriftArm& arm, uint64_t differing) {
    DriftArmResult result;
    result.arm = arm;
    result.drift.kv = Drift(differing);
    result.drift.kernels = "torch";
    result.drift.positions = 4;
    result.decoded_ids = {7, 8, 9};
    run_.arms.push_back(std::move(result));
  }
  // Another set of kernels than the base's.
  void AddKernels(const std::string& kernels, uint64_t differing) {
    Add({DriftFactor::kKernels, {104, 64, 2, kernels}}, differing);
    run_.arms.back().drift.kernels = kernels;
  }
  void Flip(size_t arm, uint64_t position) {
    DriftReport& drift = run_.arms[arm].drift;
    TokenFlip flip;
    flip.position = position;
    flip.cached_id = 13;
    flip.cached_logit = 14.1875f;
    flip.recomputed_id = 12;
    flip.recomputed_logit = 14.25f;
    flip.top2_gap = 0.0625;
    flip.gap_steps = 1;
    drift.flips.push_back(flip);
    drift.cached_texts.push_back(" the");
    drift.recomputed_texts.push_back(" a");
  }
  static void Has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in\n" << text;
  }

  DriftRun run_;
};

TEST_F(DriftReportTest, NearlyTheSameIsNeverShownAsTheSame) {
  const std::string text = DriftText(run_);
  Has(text, "base              99.99       100");
  run_.arms[0].drift.kv.layers[0].v_decode.elements += 1'000'000;
  run_.arms[0].drift.kv.layers[0].v_decode.identical += 1'000'000;
  Has(DriftText(run_), "base             >99.99       100    >99.99");
}

TEST_F(DriftReportTest, SaysWhereDriftBegins) {
  Has(DriftText(run_), "context 104, at position 105 (layer 0): shorter ones are the same; 1 of 2");
  Has(DriftText(run_), "prompt positions differ at none, decode positions from context 104 on");
  run_.begin.shortest = 104;
  Has(DriftText(run_), "context 104, at position 105 (layer 0): the shortest of the list");
  run_.begin = {.contexts = 2,
                .differing = 0,
                .shortest = 88,
                .ctx_tokens = {},
                .position = {},
                .layer = {},
                .prompt_ctx_tokens = {},
                .decode_ctx_tokens = {}};
  Has(DriftText(run_), "nowhere: the same at all 2 contexts");
}

TEST_F(DriftReportTest, AFlipHasBothTokensTheirLogitsAndTheGap) {
  Flip(2, 106);
  EXPECT_EQ(
      FlipText(run_.arms[2].drift, 0, DType::kBf16),
      "position 106: \" a\" 12 (logit 14.25) instead of \" the\" 13 (14.1875); recomputed, the "
      "top two are 0.0625 apart (1 step of bf16)");
  Has(DriftText(run_), "1 of 12 greedy tokens would be another one");
  Has(DriftText(run_), "prefill chunk 1: position 106: \" a\" 12");
}

TEST_F(DriftReportTest, TheTextIsShortAndMarkdownHasAll) {
  for (uint64_t position = 104; position < 124; ++position) Flip(0, position);
  const std::string text = DriftText(run_);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 30) << text;
  Has(text, "and 12 more: all are in -o md and -o json");
  const std::string markdown = DriftMarkdown(run_);
  Has(markdown, "position 123");
  Has(markdown, "| layer of the base | K same % |");
  Has(markdown,
      "\n| 1                 |      100 |        100 |        100 |           0 |         0 |");
}

TEST_F(DriftReportTest, CsvHasALineForEachArmAndLayer) {
  const std::string csv = DriftCsv(run_);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 3 * 3);
  std::vector<ptrdiff_t> commas;
  for (size_t at = 0; at < csv.size();) {
    const size_t end = csv.find('\n', at);
    commas.push_back(std::count(csv.begin() + static_cast<ptrdiff_t>(at),
                                csv.begin() + static_cast<ptrdiff_t>(end), ','));
    at = end + 1;
  }
  EXPECT_EQ(std::count(commas.begin(), commas.end(), commas.front()), 10) << csv;
  Has(csv, "\nbase,,104,64,2,torch,all,8000,7999,99.9875,0.25,3,0,100,0,0,");
  Has(csv, "\nprefill_chunk,1,104,1,2,torch,0,4000,3500,87.5,");
  Has(csv, ",0,105,4,0,99\n");
}

TEST_F(DriftReportTest, JsonHasAnObjectForEachArmWithItsFactor) {
  Flip(2, 106);
  const Json json = DriftRunJson(run_);
  EXPECT_EQ(json["schema"], "kvbed-drift/1");
  EXPECT_EQ(json["status"], "ok") << "drift is no failure";
  ASSERT_EQ(json["arms"].size(), 3u);
  const Json& arm = json["arms"][2];
  EXPECT_EQ(arm["factor"], "prefill_chunk");
  EXPECT_EQ(arm["value"], 1);
  EXPECT_EQ(arm["prefill_chunk"], 1);
  EXPECT_EQ(arm["ctx_tokens"], 104);
  EXPECT_EQ(arm["identical"], 7500);
  EXPECT_EQ(arm["max_abs"], 0.25);
  EXPECT_EQ(arm["max_ulp"], 3);
  EXPECT_EQ(arm["first_position"], 105);
  EXPECT_EQ(arm["layers"].size(), 2u);
  EXPECT_EQ(arm["against_base"]["identical"], 7920);
  EXPECT_EQ(arm["flips"][0]["recomputed_text"], " a");
  EXPECT_EQ(arm["flips"][0]["gap_steps"], 1);
  EXPECT_EQ(json["arms"][0]["factor"], "base");
  EXPECT_EQ(json["arms"][0]["value"], nullptr);
  EXPECT_EQ(json["arms"][1]["first_position"], nullptr);
  EXPECT_EQ(json["begins"]["ctx_tokens"], 104);
  EXPECT_EQ(json["begins"]["differing_contexts"], 1);
  EXPECT_TRUE(NullsHaveReasons(json["begins"]));
  for (const Json& one : json["arms"]) EXPECT_TRUE(NullsHaveReasons(one));
}

TEST_F(DriftReportTest, AnotherSetOfKernelsIsAnArmWithANameForItsValue) {
  AddKernels("native", 0);
  const Json arm = DriftRunJson(run_)["arms"][3];
  EXPECT_EQ(arm["factor"], "kernels");
  EXPECT_EQ(arm["value"], "native");
  EXPECT_EQ(arm["kernels"], "native");
  EXPECT_EQ(arm["identical_pct"], 100);
  Has(DriftText(run_), "native kernels");
  Has(DriftText(run_), "1 of 2 contexts differ (torch kernels)");
  Has(DriftCsv(run_), "\nkernels,native,104,64,2,native,all,8000,8000,100,");
}

TEST_F(DriftReportTest, SaysRoundingOnlyWhereSomethingDiffers) {
  Has(DriftText(run_), "What differs is rounding, not corruption");
  run_.arms.clear();
  AddKernels("native", 0);
  const std::string text = DriftText(run_);
  Has(text, "The two are the same bits.");
  EXPECT_EQ(text.find("rounding"), std::string::npos) << text;
}

TEST_F(DriftReportTest, OnlyALimitMakesItFailAndNamesTheArms) {
  run_.fail_above_pct = 6.25;  // 500 of 8,000 are as many, and no more
  EXPECT_EQ(DriftRunJson(run_)["status"], "ok");
  Has(DriftText(run_), "Limit       kept: more than 6.25 % of the elements differ in 0 of 3 arms");
  run_.fail_above_pct = 6.24;
  const Json json = DriftRunJson(run_);
  EXPECT_EQ(json["status"], "failed");
  ASSERT_EQ(json["reasons"].size(), 1u);
  EXPECT_EQ(
      json["reasons"][0],
      "prefill chunk 1: 500 of 8,000 K and V elements differ (6.25 %), more than --fail-above "
      "6.24 %");
  EXPECT_EQ(json["arms"][2]["exceeds_limit"], true);
  EXPECT_EQ(json["arms"][0]["exceeds_limit"], false);
  Has(DriftText(run_), "Limit       FAIL: more than 6.24 % of the elements differ in 1 of 3 arms");
  run_.fail_above_pct = 0;  // one of 8,000 is too many
  EXPECT_EQ(DriftRunJson(run_)["reasons"].size(), 2u);
}

}  // namespace
}  // namespace kvbed
