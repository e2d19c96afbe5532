#include "tools/plan/plan_rows.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tools/shape_names.h"

namespace kvbed {
namespace {

PlanRequest Request(const std::string& shape, std::vector<uint64_t> ctx = {131072},
                    std::vector<uint64_t> users = {1}) {
  PlanRequest request;
  request.shape = *FindShape(shape);
  request.ctx = std::move(ctx);
  request.users = std::move(users);
  return request;
}

Plan Made(const PlanRequest& request) {
  auto plan = MakePlan(request);
  EXPECT_OK(plan);
  return plan.ok() ? *plan : Plan{};
}

const PlanRow& FirstRow(const Plan& plan) { return plan.variants.at(0).rows.at(0); }

TEST(Plan, HasTheKnownSizes) {
  const Plan small = Made(Request("llama3-8b"));
  EXPECT_EQ(FirstRow(small).kv_bytes, 17179869184u);
  const Plan large = Made(Request("llama3-70b", {112000}));
  EXPECT_EQ(large.own().kv_bytes_per_token, 327680u);
  EXPECT_EQ(FirstRow(large).kv_bytes, 36700160000u);
  EXPECT_EQ(large.own().weight_bytes, 141107412992u);
}

TEST(Plan, HasARowForEachContextAndNumberOfUsers) {
  const Plan plan = Made(Request("llama3-70b", {4096, 8192}, {1, 8, 32}));
  const std::vector<PlanRow>& rows = plan.variants.at(0).rows;
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[1].kv_bytes, 8 * rows[0].kv_bytes);
  EXPECT_EQ(rows[5].kv_bytes, uint64_t{32} * 8192 * 327680);
  EXPECT_DOUBLE_EQ(rows[5].ratio, 32.0 * 8192 * 327680 / 141107412992.0);
  EXPECT_EQ(plan.answer.ctx_tokens, 8192u);
  EXPECT_EQ(plan.answer.users, 1u);
}

TEST(Plan, ComparesMhaGqaAndMqaOfTheSameModel) {
  const auto heads = [](const Plan& plan) {
    std::vector<uint32_t> counts;
    for (const PlannedVariant& planned : plan.variants) {
      counts.push_back(planned.variant.shape.kv_heads);
      EXPECT_EQ(planned.variant.own, counts.size() == 1);
    }
    return counts;
  };
  const Plan grouped = Made(Request("llama3-70b"));
  EXPECT_EQ(heads(grouped), (std::vector<uint32_t>{8, 64, 1}));
  EXPECT_EQ(grouped.variants[1].variant.kv_bytes_per_token, 2621440u);
  EXPECT_EQ(grouped.variants[2].variant.kv_bytes_per_token, 40960u);
  // Its K and V projections are larger too.
  EXPECT_EQ(grouped.variants[1].variant.parameters - grouped.own().parameters,
            uint64_t{80} * 2 * 8192 * 56 * 128);
  EXPECT_EQ(heads(Made(Request("llama2-7b"))), (std::vector<uint32_t>{32, 8, 1}));
  EXPECT_EQ(Made(Request("deepseek-v3")).variants.size(), 1u);
}

TEST(Plan, LeavesOutVariantsThatTheRanksCantShare) {
  // 24 query heads: 8 KV heads are shared by 8, 16 and 24 ranks, not by 3.
  PlanRequest request = Request("llama2-7b");
  request.shape.heads = request.shape.kv_heads = 24;
  EXPECT_EQ(Made(request).variants.size(), 3u);
  request.tp = 3;
  EXPECT_EQ(Made(request).variants.size(), 2u);
}

TEST(Plan, RestoreEqualsPrefillAtTheBreakEvenBandwidth) {
  PlanRequest request = Request("llama3-70b", {32768});
  request.disk_gb_per_s = SourcedValue{7, "given"};
  request.prefill_tok_per_s = SourcedValue{9000, "given"};
  const PlanRow row = Made(request).answer;
  EXPECT_DOUBLE_EQ(*row.restore_s, 32768.0 * 327680 / 7e9);
  EXPECT_DOUBLE_EQ(*row.prefill_s, 32768.0 / 9000);
  EXPECT_DOUBLE_EQ(*row.break_even_gb_per_s, 327680.0 * 9000 / 1e9);
  request.disk_gb_per_s->value = *row.break_even_gb_per_s;
  const PlanRow even = Made(request).answer;
  EXPECT_DOUBLE_EQ(*even.restore_s, *even.prefill_s);
  EXPECT_DOUBLE_EQ(*even.break_even_tok_per_s, 9000);
}

TEST(Plan, SaysNothingThatItDoesntKnow) {
  const PlanRow row = Made(Request("llama3-8b")).answer;
  EXPECT_FALSE(row.restore_s || row.prefill_s || row.break_even_gb_per_s ||
               row.break_even_tok_per_s || row.claim_gb_per_s || row.users_in_memory ||
               row.users_on_disk);
}

TEST(Plan, CountsUsersThatFitBesideTheWeights) {
  PlanRequest request = Request("llama3-8b", {8192});
  request.memory_bytes = uint64_t{80} << 30;
  request.disk_bytes = 3'840'000'000'000;
  const PlanRow row = Made(request).answer;
  EXPECT_EQ(row.users_in_memory, ((uint64_t{80} << 30) - 16060522496) / 1073741824);  // 65
  EXPECT_EQ(row.users_on_disk, 3576u);
  // One byte less than weights and one user.
  request.memory_bytes = uint64_t{16060522496} + 1073741824 - 1;
  EXPECT_EQ(Made(request).answer.users_in_memory, 0u);
  *request.memory_bytes += 1;
  EXPECT_EQ(Made(request).answer.users_in_memory, 1u);
  request.memory_bytes = 1;  // not even the weights
  EXPECT_EQ(Made(request).answer.users_in_memory, 0u);
}

TEST(Plan, SharesWeightsAndHeadsAmongRanks) {
  PlanRequest request = Request("llama3-70b", {32768});
  request.memory_bytes = uint64_t{80} << 30;
  EXPECT_EQ(Made(request).answer.users_in_memory, 0u);  // 131 GiB of weights
  request.tp = 4;
  const PlanRow row = Made(request).answer;
  EXPECT_EQ(row.kv_bytes, 10737418240u);
  EXPECT_EQ(row.rank_kv_bytes, 2684354560u);
  EXPECT_EQ(row.users_in_memory, ((uint64_t{80} << 30) - 141107412992 / 4) / 2684354560);
  // More ranks than heads: what is replicated counts for each.
  request.tp = 16;
  EXPECT_EQ(Made(request).answer.kv_bytes, 2u * 10737418240u);
  request.tp = 3;
  EXPECT_TRUE(FailsWith(MakePlan(request).status(), StatusCode::kInvalidArgument, "3 ranks"));
}

TEST(Plan, TellsTheBandwidthBehindAClaim) {
  PlanRequest request = Request("llama3-70b", {112000});
  request.claim_seconds = SourcedValue{0.5, "given"};
  EXPECT_DOUBLE_EQ(*Made(request).answer.claim_gb_per_s, 73.40032);
}

TEST(Plan, BoundsAWindowedModelsKv) {
  PlanRequest request = Request("mistral-7b-v0.1", {4096, 131072});
  request.prefill_tok_per_s = SourcedValue{1000, "given"};
  const Plan plan = Made(request);
  EXPECT_EQ(plan.variants[0].rows[0].kv_bytes, plan.variants[0].rows[1].kv_bytes);
  // The longer context needs less bandwidth to be worth a restore.
  EXPECT_DOUBLE_EQ(*plan.variants[0].rows[0].break_even_gb_per_s,
                   32 * *plan.variants[0].rows[1].break_even_gb_per_s);
}

TEST(Plan, RefusesSizesBeyond64BitsAndEndlessTables) {
  const uint64_t huge = uint64_t{1} << 40;
  EXPECT_TRUE(FailsWith(MakePlan(Request("llama3-8b", {huge}, {huge})).status(),
                        StatusCode::kInvalidArgument, "fewer tokens or users"));
  EXPECT_OK(MakePlan(Request("smollm2-135m", {huge}, {1})));
  const std::vector<uint64_t> many(400, 1);
  EXPECT_TRUE(FailsWith(MakePlan(Request("llama3-8b", many, many)).status(),
                        StatusCode::kInvalidArgument, "shorter lists"));
}

}  // namespace
}  // namespace kvbed
