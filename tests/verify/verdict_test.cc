#include "verify/verdict.h"

#include <gtest/gtest.h>

namespace kvbed {
namespace {

constexpr auto kEqual = VerdictStatus::kEqual;
constexpr auto kDiffers = VerdictStatus::kDiffers;
constexpr auto kNotAssessable = VerdictStatus::kNotAssessable;

const NumericEnvironment kHere = {"torch", "AVX512", "torch 2.13.0", "bf16 as fp32", 2, 512};
NumericEnvironment OneThread() {
  NumericEnvironment environment = kHere;
  environment.threads = 1;
  return environment;
}

RestoreReport WholeRestore() {
  RestoreReport report;
  report.blocks = report.blocks_restored = 3;
  report.kv_bytes = 1000;
  return report;
}
RestoreReport RestoreWithFinding() {
  RestoreReport report = WholeRestore();
  report.blocks_restored = 1;
  Finding finding;
  finding.message = "K of layer 3 does not match the digest";
  report.findings.push_back(finding);
  return report;
}
RestoreReport RestoreWithIoError() {
  RestoreReport report = WholeRestore();
  report.failed_reads.push_back({2, Status::IoError("EIO")});
  return report;
}

KvComparison EqualKv(uint64_t bytes = 1000) {
  KvComparison kv;
  kv.compared_bytes = bytes;
  return kv;
}
KvComparison DifferentKv() {
  KvComparison kv = EqualKv();
  kv.differing_bits = 5;
  kv.first = Finding{};
  kv.first->message = "V of layer 1, KV head 0, token 9, dim 2";
  return kv;
}

TraceComparison EqualSteps(uint64_t steps = 4) {
  TraceComparison trace;
  trace.reference_steps = trace.other_steps = trace.steps = steps;
  return trace;
}
TraceComparison DifferentLogits() {
  TraceComparison trace = EqualSteps();
  trace.differing_logits_steps = 2;
  trace.first_logits_step = 1;
  trace.differing_bits = 7;
  return trace;
}
TraceComparison DifferentTokens() {
  TraceComparison trace = DifferentLogits();
  trace.differing_token_steps = 1;
  trace.first_token_step = 3;
  return trace;
}
TraceComparison OneStepMissing() {
  TraceComparison trace = EqualSteps(3);
  trace.reference_steps = 4;
  return trace;
}

TEST(ControlVerdict, NeedsEqualKvLogitsAndTokens) {
  EXPECT_EQ(JudgeControl(EqualKv(), 1000, EqualSteps()).status, kEqual);
  EXPECT_EQ(JudgeControl(DifferentKv(), 1000, EqualSteps()).status, kDiffers);
  EXPECT_EQ(JudgeControl(EqualKv(), 1000, DifferentLogits()).status, kDiffers);
  EXPECT_EQ(JudgeControl(EqualKv(), 1000, DifferentLogits()).reason, "the logits of step 1");
  EXPECT_EQ(JudgeControl(EqualKv(), 1000, DifferentTokens()).status, kDiffers);
  EXPECT_EQ(JudgeControl(EqualKv(), 1000, OneStepMissing()).status, kDiffers);
}

TEST(ControlVerdict, IsNotGivenWithoutHavingComparedAll) {
  EXPECT_EQ(JudgeControl(EqualKv(999), 1000, EqualSteps()).status, kNotAssessable);
  EXPECT_EQ(JudgeControl(EqualKv(0), 0, EqualSteps()).status, kNotAssessable);
  EXPECT_EQ(JudgeControl(EqualKv(), 1000, EqualSteps(0)).status, kNotAssessable);
}

TEST(BytesVerdict, EqualOnlyWhenAllWasComparedAndNothingDiffers) {
  const BytesVerdict verdict = JudgeBytes(WholeRestore(), EqualKv(), 1000);
  EXPECT_EQ(verdict.status, kEqual);
  EXPECT_EQ(verdict.compared_bytes, 1000u);
  EXPECT_EQ(JudgeBytes(WholeRestore(), EqualKv(500), 1000).status, kNotAssessable);
  EXPECT_EQ(JudgeBytes(WholeRestore(), EqualKv(0), 0).status, kNotAssessable);
}

TEST(BytesVerdict, OneDifferingBitIsADifference) {
  const BytesVerdict verdict = JudgeBytes(WholeRestore(), DifferentKv(), 1000);
  EXPECT_EQ(verdict.status, kDiffers);
  EXPECT_EQ(verdict.differing_bits, 5u);
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.reason, verdict.findings[0].message);
}

TEST(BytesVerdict, AFindingOfTheRestoreIsADifferenceWhateverWasComparedAfterIt) {
  for (uint64_t compared : {0u, 500u, 1000u}) {
    const BytesVerdict verdict = JudgeBytes(RestoreWithFinding(), EqualKv(compared), 1000);
    EXPECT_EQ(verdict.status, kDiffers);
    EXPECT_EQ(verdict.reason, "K of layer 3 does not match the digest");
    EXPECT_EQ(verdict.findings.size(), 1u);
  }
}

TEST(BytesVerdict, WhatCouldNotBeReadIsNotAssessable) {
  const BytesVerdict verdict = JudgeBytes(RestoreWithIoError(), EqualKv(), 1000);
  EXPECT_EQ(verdict.status, kNotAssessable);
  EXPECT_NE(verdict.reason.find("block 2"), std::string::npos);
  EXPECT_EQ(JudgeBytes(RestoreWithIoError(), DifferentKv(), 1000).status, kDiffers);
}

TEST(BytesVerdict, ByTheManifestAlone) {
  const BytesVerdict verdict = JudgeBytesByManifest(WholeRestore(), true);
  EXPECT_EQ(verdict.status, kEqual);
  EXPECT_EQ(verdict.compared_bytes, 1000u);
  EXPECT_EQ(JudgeBytesByManifest(WholeRestore(), false).status, kNotAssessable);
  EXPECT_EQ(JudgeBytesByManifest(RestoreWithFinding(), true).status, kDiffers);
  EXPECT_EQ(JudgeBytesByManifest(RestoreWithIoError(), true).status, kNotAssessable);
  EXPECT_EQ(JudgeBytesByManifest(RestoreReport{}, true).status, kNotAssessable);
}

TEST(BytesVerdict, ByDigests) {
  const KvGeometry geometry = {.layers = 1, .kv_heads = 1, .head_dim = 2, .block_tokens = 4};
  KvDigest digest;
  digest.tokens = 10;
  digest.parts = {Xxh3_128(AsBytes("k")), Xxh3_128(AsBytes("v"))};
  KvDigest other = digest;
  other.parts[1] = Xxh3_128(AsBytes("w"));
  const std::vector<KvDigestPair> same = {{digest, digest}},
                                  differs = {{digest, digest}, {digest, other}};
  const BytesVerdict equal = JudgeBytesByDigests(WholeRestore(), geometry, same);
  EXPECT_EQ(equal.status, kEqual);
  EXPECT_EQ(equal.compared_bytes, 10u * 8);
  const BytesVerdict different = JudgeBytesByDigests(WholeRestore(), geometry, differs);
  EXPECT_EQ(different.status, kDiffers);
  EXPECT_NE(different.reason.find("V of layer 0"), std::string::npos);
  EXPECT_EQ(JudgeBytesByDigests(WholeRestore(), geometry, {}).status, kNotAssessable);
  EXPECT_EQ(JudgeBytesByDigests(RestoreWithFinding(), geometry, same).status, kDiffers);
}

TEST(LogitsVerdict, EqualAndDiffers) {
  const auto judge = [](const TraceComparison& trace) {
    return JudgeLogits(trace, StepCounts::kMustAgree, kHere, kHere);
  };
  EXPECT_EQ(judge(EqualSteps()).status, kEqual);
  EXPECT_EQ(judge(EqualSteps()).steps, 4u);
  const LogitsVerdict verdict = judge(DifferentLogits());
  EXPECT_EQ(verdict.status, kDiffers);
  EXPECT_EQ(verdict.differing_bits, 7u);
  EXPECT_EQ(verdict.first_differing_step, 1u);
  EXPECT_EQ(judge(EqualSteps(0)).status, kNotAssessable);
}

TEST(NumericEnvironment, OfTheNativeKernelsHasTheSameBitsOnAnyThreadsAndChunk) {
  NumericEnvironment native = {"native", "portable", "kvbed kernels 1", "bf16", 2, 512};
  NumericEnvironment other = native;
  other.threads = 1;
  other.prefill_chunk = 16;
  EXPECT_TRUE(native.GivesTheBitsOf(other));
  other.isa = "avx512_bf16";
  EXPECT_EQ(native.DifferenceFrom(other), "instruction set was portable, here avx512_bf16");
  EXPECT_FALSE(kHere.GivesTheBitsOf(OneThread()));
  EXPECT_FALSE(kHere.GivesTheBitsOf(native));
}

TEST(LogitsVerdict, IsNotGivenInAnotherNumericEnvironment) {
  for (const TraceComparison& trace : {EqualSteps(), DifferentLogits()}) {
    const LogitsVerdict verdict = JudgeLogits(trace, StepCounts::kMustAgree, kHere, OneThread());
    EXPECT_EQ(verdict.status, kNotAssessable);
    EXPECT_EQ(verdict.reason, "another numeric environment: threads was 2, here 1");
  }
}

TEST(StepsVerdict, AMissingStepIsADifferenceWhereTheLengthsMustAgree) {
  EXPECT_EQ(JudgeLogits(OneStepMissing(), StepCounts::kMustAgree, kHere, kHere).status, kDiffers);
  EXPECT_EQ(JudgeTokens(OneStepMissing(), StepCounts::kMustAgree, kHere, kHere).status, kDiffers);
  EXPECT_EQ(JudgeLogits(OneStepMissing(), StepCounts::kMayDiffer, kHere, kHere).status, kEqual);
  EXPECT_EQ(JudgeTokens(OneStepMissing(), StepCounts::kMayDiffer, kHere, kHere).steps, 3u);
}

TEST(TokensVerdict, EqualAndDiffers) {
  EXPECT_EQ(JudgeTokens(EqualSteps(), StepCounts::kMustAgree, kHere, kHere).status, kEqual);
  EXPECT_EQ(JudgeTokens(DifferentLogits(), StepCounts::kMustAgree, kHere, kHere).status, kEqual);
  const TokensVerdict verdict =
      JudgeTokens(DifferentTokens(), StepCounts::kMustAgree, kHere, kHere);
  EXPECT_EQ(verdict.status, kDiffers);
  EXPECT_EQ(verdict.first_differing_step, 3u);
  EXPECT_EQ(JudgeTokens(EqualSteps(0), StepCounts::kMustAgree, kHere, kHere).status,
            kNotAssessable);
}

TEST(TokensVerdict, DifferentTokensInAnotherEnvironmentProveNothing) {
  EXPECT_EQ(JudgeTokens(EqualSteps(), StepCounts::kMustAgree, kHere, OneThread()).status, kEqual);
  const TokensVerdict verdict =
      JudgeTokens(DifferentTokens(), StepCounts::kMustAgree, kHere, OneThread());
  EXPECT_EQ(verdict.status, kNotAssessable);
  EXPECT_NE(verdict.reason.find("threads was 2, here 1"), std::string::npos);
}

TEST(VerdictStatus, Names) {
  EXPECT_EQ(VerdictStatusName(kEqual), "equal");
  EXPECT_EQ(VerdictStatusName(kDiffers), "differs");
  EXPECT_EQ(VerdictStatusName(kNotAssessable), "not_assessable");
}

}  // namespace
}  // namespace kvbed
