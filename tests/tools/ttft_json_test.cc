// Time to the first token and break-even: the arithmetic, its signs, and the parts that must sum
// up.
#include "tools/bench/ttft_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvbed {
namespace {

constexpr uint64_t kMs = 1'000'000;

// A context that takes 100 ms to restore and 900 ms to compute again.
Measurement Measured() {
  Measurement m;
  m.cell.geometry = {.layers = 30, .kv_heads = 3, .head_dim = 64, .block_tokens = 16};
  m.cell.ctx_tokens = 4096;
  m.cell.from_model = true;
  for (const uint64_t ms : {90, 100, 110}) {
    RestoreSample restore;
    restore.wall_ns = ms * kMs;
    m.restore.push_back(restore);
    OffloadSample offload;
    offload.d0_ns = ms * kMs;
    offload.d1_ns = 16 * ms * kMs;
    m.offload.push_back(offload);
  }
  TtftSamples ttft;
  for (const uint64_t ms : {90, 100, 110}) {
    ttft.restore.push_back({.lookup_ns = kMs,
                            .read_ns = (ms - 10) * kMs,
                            .verify_ns = 20 * kMs,
                            .overlap_ns = 21 * kMs,
                            .first_decode_ns = 10 * kMs,
                            .total_ns = ms * kMs});
  }
  ttft.recompute.push_back({.prefill_ns = 890 * kMs, .first_decode_ns = 10 * kMs});
  ttft.in_memory_ns = {10 * kMs};
  ttft.ram_copy_ns = {12 * kMs};
  m.ttft = ttft;
  return m;
}

TEST(TtftJson, ValuesOfAnArmAreThoseOfTheMedianRepetition) {
  const Json ttft = TtftJson(Measured());
  EXPECT_EQ(ttft["restore"]["total_ns"], 100 * kMs);
  EXPECT_EQ(ttft["restore"]["read_ns"], 90 * kMs);
  EXPECT_EQ(ttft["recompute"]["total_ns"], 900 * kMs);
  EXPECT_EQ(ttft["recompute"]["given"], false);
  EXPECT_EQ(ttft["in_memory"]["total_ns"], 10 * kMs);
  EXPECT_EQ(ttft["ram_copy"]["total_ns"], 12 * kMs);
}

TEST(TtftJson, SaysWhyAnArmIsMissing) {
  Measurement m = Measured();
  m.ttft.reset();
  m.ttft_reason = "synthetic KV";
  const Json ttft = TtftJson(m);
  for (const char* arm : {"restore", "recompute", "in_memory", "ram_copy"}) {
    EXPECT_TRUE(ttft[arm].is_null()) << arm;
    EXPECT_EQ(ttft[std::string(arm) + "_reason"], "synthetic KV") << arm;
  }
}

TEST(TtftJson, AGivenRateTakesThePlaceOfTheMeasuredOne) {
  Measurement m = Measured();
  m.cell.prefill = SourcedValue{.value = 8192, .source = "given: data sheet"};
  const Json arm = TtftJson(m)["recompute"];
  EXPECT_EQ(arm["prefill_ns"], 500 * kMs);
  EXPECT_EQ(arm["given"], true);
  EXPECT_EQ(arm["device"], "given: data sheet");
  EXPECT_TRUE(arm["first_decode_ns"].is_null());
}

TEST(BreakEven, IsWhereReadingTakesAsLongAsComputing) {
  const Measurement m = Measured();
  const Json even = BreakEvenJson(m, std::nullopt);
  EXPECT_DOUBLE_EQ(even["seconds_saved"].get<double>(), 0.8);
  EXPECT_DOUBLE_EQ(even["bandwidth_gb_per_s"].get<double>(),
                   static_cast<double>(m.cell.stored_bytes()) / (890.0 * kMs));
  // 1.6 s to offload, 0.8 s saved by each restore.
  EXPECT_EQ(even["restores_to_amortise"], 2);
  EXPECT_TRUE(even["ctx_tokens"].is_null());
}

TEST(BreakEven, ContextLiesWhereTheSignChanges) {
  const SmallerContext smaller{.ctx_tokens = 2048,
                               .worth = {.restore_ns = 300 * kMs, .recompute_ns = 100 * kMs}};
  // 0.2 s are lost at 2048, 0.8 s saved at 4096.
  EXPECT_EQ(BreakEvenJson(Measured(), smaller)["ctx_tokens"], 2048 + 2048 / 5 + 1);
  const SmallerContext saved{.ctx_tokens = 2048,
                             .worth = {.restore_ns = 100 * kMs, .recompute_ns = 300 * kMs}};
  EXPECT_TRUE(BreakEvenJson(Measured(), saved)["ctx_tokens"].is_null());
}

TEST(BreakEven, ARestoreThatSavesNothingNeverPaysOff) {
  Measurement m = Measured();
  m.ttft->recompute[0].prefill_ns = 50 * kMs;
  const Json even = BreakEvenJson(m, std::nullopt);
  EXPECT_LT(even["seconds_saved"].get<double>(), 0);
  EXPECT_TRUE(even["restores_to_amortise"].is_null());
}

TEST(PartsOfTtft, MustSumToTheWhole) {
  TtftRestore one = Measured().ttft->restore[0];
  EXPECT_EQ(PartsThatDontSum(one), "");
  one.total_ns += one.total_ns / 40;  // 2.5 % that nobody accounts for
  EXPECT_NE(PartsThatDontSum(one), "");
}

}  // namespace
}  // namespace kvbed
