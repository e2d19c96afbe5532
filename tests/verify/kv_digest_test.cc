#include "verify/kv_digest.h"

#include <gtest/gtest.h>

#include "tests/verify/filled_sequence.h"
#include "verify/kv_image.h"

namespace kvbed {
namespace {

TEST(KvDigest, DoesNotDependOnTheBlockSize) {
  const KvDigest digest = DigestKv(*MakeFilled(SmallGeometry(5), 13).sequence);
  for (uint32_t block_tokens : {1, 4, 7, 16, 32}) {
    EXPECT_EQ(DigestKv(*MakeFilled(SmallGeometry(block_tokens), 13).sequence), digest);
  }
  EXPECT_EQ(digest.tokens, 13u);
  EXPECT_EQ(digest.parts.size(), 6u);
}

TEST(KvDigest, OfAPrefixIsThatOfTheShorterRun) {
  const FilledSequence longer = MakeFilled(SmallGeometry(5), 13);
  const FilledSequence shorter = MakeFilled(SmallGeometry(5), 8);
  EXPECT_EQ(DigestKv(KvView::Of(*longer.sequence), 8), DigestKv(*shorter.sequence));
  EXPECT_NE(DigestKv(*longer.sequence), DigestKv(*shorter.sequence));
  EXPECT_EQ(DigestKv(KvImage::CopyOf(*longer.sequence).view(), 13), DigestKv(*longer.sequence));
}

TEST(KvDigest, NamesTheFirstPartThatDiffers) {
  FilledSequence filled = MakeFilled(SmallGeometry(5), 13);
  const KvDigest before = DigestKv(*filled.sequence);
  EXPECT_EQ(before.DifferenceFrom(before), "");
  filled.Element({2, KvPart::kK, 1, 12, 3})[0] ^= std::byte{1};
  EXPECT_EQ(before.DifferenceFrom(DigestKv(*filled.sequence)), "K of layer 2");
  filled.Element({0, KvPart::kV, 0, 0, 0})[1] ^= std::byte{1};
  EXPECT_EQ(before.DifferenceFrom(DigestKv(*filled.sequence)), "V of layer 0");
  EXPECT_EQ(before.DifferenceFrom(DigestKv(KvView::Of(*filled.sequence), 12)),
            "token count: 13 and 12");
}

TEST(KvDigest, SwappedPartsHeadsAndRowsAreOtherDigests) {
  const KvGeometry g = SmallGeometry(5);
  const KvDigest before = DigestKv(*MakeFilled(g, 5).sequence);
  const auto swapped = [&](uint64_t a, uint64_t b, uint64_t size) {
    FilledSequence filled = MakeFilled(g, 5);
    const MutableBytes payload = filled.sequence->payload(0);
    std::swap_ranges(payload.begin() + a, payload.begin() + a + size, payload.begin() + b);
    return DigestKv(*filled.sequence);
  };
  EXPECT_NE(swapped(0, g.part_bytes(), g.part_bytes()), before);  // K and V
  EXPECT_NE(swapped(0, g.head_bytes(), g.head_bytes()), before);  // heads
  EXPECT_NE(swapped(0, 8, 8), before);                            // rows
  EXPECT_EQ(swapped(0, 0, 0), before);
}

TEST(KvDigest, TheSameBytesInAnotherShapeAreAnotherDigest) {
  const KvGeometry two_heads = {.layers = 1, .kv_heads = 1, .head_dim = 4, .block_tokens = 4};
  const KvGeometry one_row = {.layers = 1, .kv_heads = 1, .head_dim = 8, .block_tokens = 2};
  EXPECT_NE(DigestKv(*MakeFilled(two_heads, 4).sequence).total,
            DigestKv(*MakeFilled(one_row, 2).sequence).total);
}

}  // namespace
}  // namespace kvbed
