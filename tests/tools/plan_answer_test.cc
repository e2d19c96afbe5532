#include "tools/plan/plan_answer.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tools/plan/plan_wording.h"
#include "tools/shape_names.h"

namespace kvbed {
namespace {

std::string Answer(std::optional<double> disk_gb_per_s, std::optional<double> prefill_tok_per_s) {
  PlanRequest request;
  request.shape = *FindShape("llama3-70b");
  request.ctx = {4096, 131072, 8192};
  request.users = {32};
  if (disk_gb_per_s) request.disk_gb_per_s = SourcedValue{*disk_gb_per_s, "given"};
  if (prefill_tok_per_s) request.prefill_tok_per_s = SourcedValue{*prefill_tok_per_s, "given"};
  auto plan = MakePlan(request);
  EXPECT_OK(plan);
  return plan.ok() ? PlanAnswer(*plan) : "";
}

TEST(PlanAnswer, SaysThatTheSsdHelps) {
  EXPECT_EQ(
      Answer(7, 9000),
      "For 131,072 tokens of llama3-70b (42.95 GB of bf16 KV) a restore takes 6.14 s at 7.00 "
      "GB/s (given) and a prefill takes 14.6 s at 9,000 tokens/s (given): the SSD helps, 8.43 "
      "s saved, 2.37 times as fast; the break-even bandwidth is 2.95 GB/s.");
}

TEST(PlanAnswer, SaysThatItDoesnt) {
  EXPECT_EQ(Answer(1, 9000),
            "For 131,072 tokens of llama3-70b (42.95 GB of bf16 KV) a restore takes 42.9 s at 1.00 "
            "GB/s (given) and a prefill takes 14.6 s at 9,000 tokens/s (given): the SSD doesn't "
            "help, 28.4 s lost, computing again is 2.95 times as fast; the break-even bandwidth is "
            "2.95 GB/s.");
}

TEST(PlanAnswer, IsAFunctionOfWhatIsntKnown) {
  EXPECT_EQ(Answer(7, std::nullopt),
            "For 131,072 tokens of llama3-70b (42.95 GB of bf16 KV) a restore takes 6.14 s at 7.00 "
            "GB/s (given); no prefill rate is known (--prefill-tok-per-s), so the prefill takes "
            "131,072/R s at R tokens/s: the SSD helps where R is below 21,362 tokens/s, and the "
            "break-even bandwidth is 0.328 GB/s for each 1,000 tokens/s of prefill.");
  EXPECT_EQ(
      Answer(std::nullopt, 9000),
      "For 131,072 tokens of llama3-70b (42.95 GB of bf16 KV) a prefill takes 14.6 s at 9,000 "
      "tokens/s (given); no bandwidth is known (--disk-gb-per-s or --from), so the restore "
      "takes 42.95/B s at B GB/s: the SSD helps where B is above the break-even bandwidth, "
      "2.95 GB/s.");
  EXPECT_EQ(Answer(std::nullopt, std::nullopt),
            "For 131,072 tokens of llama3-70b (42.95 GB of bf16 KV) a restore takes 42.95/B s at B "
            "GB/s and a prefill 131,072/R s at R tokens/s; neither rate is known (--disk-gb-per-s "
            "or --from, --prefill-tok-per-s), so the SSD helps where B is above the break-even "
            "bandwidth, 0.328 GB/s for each 1,000 tokens/s of prefill.");
}

TEST(PlanAnswer, NamesTheRanksThatHoldIt) {
  PlanRequest request;
  request.shape = *FindShape("llama3-70b");
  request.tp = 4;
  auto plan = MakePlan(request);
  ASSERT_OK(plan);
  EXPECT_NE(PlanAnswer(*plan).find("(42.95 GB of bf16 KV on 4 ranks)"), std::string::npos);
}

TEST(PlanAnswer, SaysWhyThereIsNoPrefillRate) {
  PlanRequest request;
  request.shape = *FindShape("llama3-70b");
  request.disk_gb_per_s = SourcedValue{7, "given"};
  request.no_prefill_reason = "no row has one";
  auto plan = MakePlan(request);
  ASSERT_OK(plan);
  EXPECT_NE(PlanAnswer(*plan).find("no prefill rate is known (no row has one;"), std::string::npos);
}

TEST(PlanWording, HasThreeDigitsThatCount) {
  EXPECT_EQ(ThreeDigits(0.32768), "0.328");
  EXPECT_EQ(ThreeDigits(0.019), "0.0190");
  EXPECT_EQ(ThreeDigits(0.99999), "1.00");
  EXPECT_EQ(ThreeDigits(9.999), "10.0");
  EXPECT_EQ(ThreeDigits(99.96), "100");
  EXPECT_EQ(ThreeDigits(21362.3), "21,362");
  EXPECT_EQ(ThreeDigits(1e300), "1e+300");
  EXPECT_EQ(Seconds(6.136), "6.14 s");
  EXPECT_EQ(Seconds(0.0123), "12.3 ms");
  EXPECT_EQ(Seconds(0.0000123), "12.3 us");
  EXPECT_EQ(Gigabytes(94371840), "0.094 GB");
  EXPECT_EQ(Gibibytes(17179869184), "16.00 GiB");
}

}  // namespace
}  // namespace kvbed
