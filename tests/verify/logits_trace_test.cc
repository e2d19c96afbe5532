#include "verify/logits_trace.h"

#include <gtest/gtest.h>

#include <cmath>

#include "offload/bytes.h"

namespace kvbed {
namespace {

// Four steps of three logits.
LogitsTrace Sample(uint64_t kept_bytes_max = 1 << 20, float changed = 0, int32_t token = 7) {
  LogitsTrace trace(kept_bytes_max);
  for (int step = 0; step < 4; ++step) {
    const float first = static_cast<float>(step) + (step == 2 ? changed : 0);
    trace.Append(std::vector<float>{first, 1.5f, -2.0f}, step == 3 ? token : step);
  }
  return trace;
}

TEST(LogitsTrace, KeepsDigestTokenAndLogitsOfEachStep) {
  const LogitsTrace trace = Sample();
  EXPECT_EQ(trace.steps(), 4u);
  EXPECT_EQ(trace.picked(1), 1);
  EXPECT_EQ(trace.logits(2)[0], 2.0f);
  const std::vector<float> logits = {2.0f, 1.5f, -2.0f};
  EXPECT_EQ(trace.digest(2), Xxh3_128(std::as_bytes(std::span(logits))));
}

TEST(LogitsTrace, KeepsNoMoreLogitsThanAskedFor) {
  const LogitsTrace trace = Sample(2 * 3 * sizeof(float));
  EXPECT_FALSE(trace.logits(1).empty());
  EXPECT_TRUE(trace.logits(2).empty());
  EXPECT_EQ(trace.digest(2), Sample().digest(2));
}

TEST(CompareTraces, EqualRunsAreEqual) {
  const TraceComparison comparison = CompareTraces(Sample(), 0, Sample());
  EXPECT_EQ(comparison.steps, 4u);
  EXPECT_EQ(comparison.differing_logits_steps, 0u);
  EXPECT_EQ(comparison.differing_token_steps, 0u);
  EXPECT_EQ(comparison.differing_bits, 0u);
  EXPECT_FALSE(comparison.first_logits_step || comparison.first_token_step);
}

TEST(CompareTraces, OneBitOfALogitIsFound) {
  const float nextafter_2 = std::nextafter(2.0f, 3.0f);
  const TraceComparison comparison = CompareTraces(Sample(), 0, Sample(1 << 20, nextafter_2 - 2));
  EXPECT_EQ(comparison.differing_logits_steps, 1u);
  EXPECT_EQ(comparison.first_logits_step, 2u);
  EXPECT_EQ(comparison.differing_bits, 1u);
  EXPECT_EQ(comparison.differing_token_steps, 0u);
}

TEST(CompareTraces, MinusZeroIsNotZero) {
  LogitsTrace a, b;
  a.Append(std::vector<float>{0.0f}, 0);
  b.Append(std::vector<float>{-0.0f}, 0);
  EXPECT_EQ(CompareTraces(a, 0, b).differing_bits, 1u);
}

TEST(CompareTraces, AnotherTokenIsFoundApartFromTheLogits) {
  const TraceComparison comparison = CompareTraces(Sample(), 0, Sample(1 << 20, 0, 8));
  EXPECT_EQ(comparison.differing_token_steps, 1u);
  EXPECT_EQ(comparison.first_token_step, 3u);
  EXPECT_EQ(comparison.differing_logits_steps, 0u);
}

TEST(CompareTraces, AResumedRunStartsInTheMiddleOfTheReference) {
  const LogitsTrace reference = Sample(1 << 20, 0.5f);
  LogitsTrace resumed;
  for (int step : {2, 3}) {
    const LogitsTrace sample = Sample();
    const auto logits = sample.logits(static_cast<uint64_t>(step));
    resumed.Append(std::vector<float>(logits.begin(), logits.end()), step == 3 ? 7 : step);
  }
  const TraceComparison comparison = CompareTraces(reference, 2, resumed);
  EXPECT_EQ(comparison.steps, 2u);
  EXPECT_EQ(comparison.first_logits_step, 2u);  // counted in the reference
  EXPECT_GT(*comparison.differing_bits, 0u);
}

TEST(CompareTraces, RunsOfOtherLengthsAreComparedAsFarAsBothGo) {
  LogitsTrace longer = Sample();
  longer.Append(std::vector<float>{9, 9, 9}, 9);
  TraceComparison comparison = CompareTraces(Sample(), 1, longer);
  EXPECT_EQ(comparison.steps, 3u);
  EXPECT_EQ(comparison.reference_steps, 3u);
  EXPECT_EQ(comparison.other_steps, 5u);
  comparison = CompareTraces(Sample(), 4, Sample());
  EXPECT_EQ(comparison.steps, 0u);
}

TEST(CompareTraces, WithoutLogitsTheNumberOfBitsIsUnknownUnlessNothingDiffers) {
  const LogitsTrace written_down(Sample().StepsFrom(0));
  EXPECT_EQ(CompareTraces(written_down, 0, Sample()).differing_bits, 0u);
  const TraceComparison comparison = CompareTraces(written_down, 0, Sample(1 << 20, 1.0f));
  EXPECT_EQ(comparison.differing_logits_steps, 1u);
  EXPECT_EQ(comparison.differing_bits, std::nullopt);
}

TEST(LogitsTrace, StepsAreWrittenDownFromAny) {
  const std::vector<LogitsStep> steps = Sample().StepsFrom(3);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0], (LogitsStep{7, Sample().digest(3)}));
  EXPECT_TRUE(Sample().StepsFrom(4).empty());
}

}  // namespace
}  // namespace kvbed
