// Comparing dumps: what is counted, where the first difference is, and by how much.
#include "verify/kv_diff.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/verify/sample_kv.h"

namespace kvbed {
namespace {

KvDiffReport Compare(const SampleKv& a, const SampleKv& b, uint64_t piece_tokens = 1000) {
  KvDiff diff(a.shape, ComparedAs(a.shape.element, b.shape.element));
  const KvDump from_a = a.Dump(), from_b = b.Dump();
  for (uint64_t token = 0; token < a.tokens; token += piece_tokens) {
    diff.Add(from_a, from_b, token, std::min(a.tokens, token + piece_tokens));
  }
  return diff.report();
}

constexpr KvElement kElements[] = {KvElement::kBf16,    KvElement::kFp16, KvElement::kFp32,
                                   KvElement::kFp8E4m3, KvElement::kInt8, KvElement::kFp8E5m2,
                                   KvElement::kByte};

TEST(KvDiff, EqualDumpsAreEqualInEveryType) {
  for (const KvElement element : kElements) {
    const SampleKv a = MakeSampleKv(element);
    const KvDiffReport report = Compare(a, a);
    EXPECT_TRUE(report.equal());
    EXPECT_FALSE(report.first);
    EXPECT_EQ(report.compared_bytes, a.bytes.size());
    EXPECT_EQ(report.total().identical_pct(), 100);
    EXPECT_EQ(report.total().elements, 3u * 2 * 2 * 40 * 8);
  }
}

TEST(KvDiff, EachFlippedBitIsFoundAtItsPlace) {
  std::mt19937 random(5);
  for (const KvElement element : kElements) {
    const SampleKv a = MakeSampleKv(element);
    for (int round = 0; round < 40; ++round) {
      SampleKv b = a;
      const KvAt at{random() % 3, static_cast<KvPart>(random() % 2), random() % 2, random() % 40,
                    random() % 8};
      const auto byte = random() % b.element_bytes();
      b.Element(at)[byte] ^= static_cast<std::byte>(1u << random() % 8);
      const KvDiffReport report = Compare(a, b, 1 + random() % 40);
      ASSERT_TRUE(report.first) << KvElementName(element);
      EXPECT_EQ(report.first->layer, at.layer);
      EXPECT_EQ(report.first->part, at.part);
      EXPECT_EQ(report.first->head, at.head);
      EXPECT_EQ(report.first->token, at.token);
      EXPECT_EQ(report.first->dim, at.dim);
      EXPECT_NE(report.first->a, report.first->b);
      EXPECT_EQ(report.differing_bits, 1u);
      EXPECT_EQ(report.total().elements - report.total().identical, 1u);
      const LayerDifference& layer = report.layers[at.layer];
      EXPECT_EQ(layer.k.elements - layer.k.identical, at.part == KvPart::kK ? 1u : 0u);
      EXPECT_EQ(layer.v.elements - layer.v.identical, at.part == KvPart::kV ? 1u : 0u);
    }
  }
}

TEST(KvDiff, TheFirstIsByLayerThoughPiecesAreOfTokens) {
  const SampleKv a = MakeSampleKv();
  SampleKv b = a;
  b.Element({2, KvPart::kK, 0, 0, 0})[0] ^= std::byte{1};
  b.Element({0, KvPart::kV, 1, 39, 7})[0] ^= std::byte{1};
  const KvDiffReport report = Compare(a, b, 4);
  EXPECT_EQ(report.first->layer, 0u);
  EXPECT_EQ(report.first->token, 39u);
  EXPECT_EQ(report.differing_bits, 2u);
}

TEST(KvDiff, BitsAreComparedAndNotValues) {
  SampleKv a = MakeSampleKv(), b = a;
  // The same NaN.
  a.Set({0, KvPart::kK, 0, 0, 0}, uint16_t{0x7fc1});
  b.Set({0, KvPart::kK, 0, 0, 0}, uint16_t{0x7fc1});
  EXPECT_TRUE(Compare(a, b).equal());
  // Another NaN.
  b.Set({0, KvPart::kK, 0, 0, 0}, uint16_t{0x7fc2});
  EXPECT_EQ(Compare(a, b).total().non_finite, 1u);
  EXPECT_EQ(Compare(a, b).total().max_abs, 0);
  // +0 and -0 differ, by no value.
  a.Set({0, KvPart::kK, 0, 0, 0}, uint16_t{0});
  b.Set({0, KvPart::kK, 0, 0, 0}, uint16_t{0x8000});
  const KvDiffReport zeroes = Compare(a, b);
  EXPECT_FALSE(zeroes.equal());
  EXPECT_EQ(zeroes.total().max_ulp, 0u);
  EXPECT_EQ(zeroes.total().max_abs, 0);
  EXPECT_EQ(zeroes.total().non_finite, 0u);
}

TEST(KvDiff, SaysByHowMuchInEachType) {
  const auto largest = [](KvElement element, auto from, auto to) {
    SampleKv a = MakeSampleKv(element), b = a;
    a.Set({1, KvPart::kV, 1, 3, 2}, from);
    b.Set({1, KvPart::kV, 1, 3, 2}, to);
    const DriftPart total = Compare(a, b).total();
    return std::pair(total.max_abs, total.max_ulp);
  };
  using Pair = std::pair<double, uint64_t>;
  // 1 and the next, or -1 and 1.
  EXPECT_EQ(largest(KvElement::kBf16, uint16_t{0x3f80}, uint16_t{0x3f81}), Pair(0x1p-7, 1));
  EXPECT_EQ(largest(KvElement::kFp16, uint16_t{0x3c00}, uint16_t{0x3c01}), Pair(0x1p-10, 1));
  EXPECT_EQ(largest(KvElement::kFp32, 0x3f800000u, 0x3f800001u), Pair(0x1p-23, 1));
  EXPECT_EQ(largest(KvElement::kFp8E4m3, uint8_t{0x38}, uint8_t{0x39}), Pair(0.125, 1));
  EXPECT_EQ(largest(KvElement::kFp8E5m2, uint8_t{0x3c}, uint8_t{0x3d}), Pair(0.25, 1));
  EXPECT_EQ(largest(KvElement::kInt8, uint8_t{0xff}, uint8_t{0x02}), Pair(3, 3));
  EXPECT_EQ(largest(KvElement::kBf16, uint16_t{0xbf80}, uint16_t{0x3f80}), Pair(2, 2 * 0x3f80));
  // More than a float holds.
  EXPECT_EQ(largest(KvElement::kBf16, uint16_t{0x7f7f}, uint16_t{0xff7f}).first, 0x1.fep128);
  EXPECT_EQ(largest(KvElement::kByte, uint8_t{1}, uint8_t{200}), Pair(0, 0));
}

TEST(KvDiff, KnowsTheValuesOfBitPatterns) {
  EXPECT_EQ(KvElementValue(KvElement::kFp16, 0x3c00), 1.0);
  EXPECT_EQ(KvElementValue(KvElement::kFp16, 0x0001), 0x1p-24);
  EXPECT_EQ(KvElementValue(KvElement::kFp16, 0xfbff), -65504.0);
  EXPECT_EQ(KvElementValue(KvElement::kFp16, 0x7c00), std::nullopt);
  EXPECT_EQ(KvElementValue(KvElement::kFp8E4m3, 0x7e), 448.0);
  EXPECT_EQ(KvElementValue(KvElement::kFp8E4m3, 0x01), 0x1p-9);
  EXPECT_EQ(KvElementValue(KvElement::kFp8E4m3, 0x7f), std::nullopt);
  EXPECT_EQ(KvElementValue(KvElement::kFp8E5m2, 0x7b), 57344.0);
  EXPECT_EQ(KvElementValue(KvElement::kFp8E5m2, 0x01), 0x1p-16);
  EXPECT_EQ(KvElementValue(KvElement::kFp8E5m2, 0x7c), std::nullopt);
  EXPECT_EQ(KvElementValue(KvElement::kInt8, 0x80), -128.0);
  EXPECT_EQ(KvElementValue(KvElement::kBf16, 0x8000), -0.0);
  EXPECT_EQ(KvElementValue(KvElement::kByte, 1), std::nullopt);
}

TEST(KvDiff, AByteOfUnknownMeaningIsComparedAsTheOther) {
  EXPECT_TRUE(ComparableElements(KvElement::kByte, KvElement::kFp8E4m3));
  EXPECT_EQ(ComparedAs(KvElement::kByte, KvElement::kFp8E4m3), KvElement::kFp8E4m3);
  EXPECT_FALSE(ComparableElements(KvElement::kFp8E5m2, KvElement::kFp8E4m3));
  EXPECT_FALSE(ComparableElements(KvElement::kBf16, KvElement::kFp16));
  EXPECT_FALSE(ComparableElements(KvElement::kByte, KvElement::kBf16));
}

}  // namespace
}  // namespace kvbed
