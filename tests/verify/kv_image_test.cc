#include "verify/kv_image.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/verify/filled_sequence.h"

namespace kvbed {
namespace {

TEST(KvImage, EqualsTheSequenceItWasCopiedFrom) {
  for (uint32_t block_tokens : {1, 4, 5, 7, 16}) {
    for (DType dtype : {DType::kBf16, DType::kFp32}) {
      const FilledSequence filled = MakeFilled(SmallGeometry(block_tokens, dtype), 13);
      const KvImage image = KvImage::CopyOf(*filled.sequence);
      const KvComparison comparison = image.Compare(*filled.sequence);
      EXPECT_TRUE(comparison.equal());
      EXPECT_EQ(comparison.compared_bytes, image.ComparedBytesFor(13));
      EXPECT_FALSE(comparison.first);
    }
  }
}

TEST(KvImage, StaysWhenTheSequenceChangesAndGoes) {
  FilledSequence filled = MakeFilled(SmallGeometry(5), 13), same = MakeFilled(SmallGeometry(5), 13);
  const KvImage image = KvImage::CopyOf(*filled.sequence);
  filled.Set({0, KvPart::kK, 0, 0, 0}, uint16_t{0});
  EXPECT_FALSE(image.Compare(*filled.sequence).equal());
  filled.sequence.reset();
  filled.pool->PoisonAll();
  EXPECT_TRUE(image.Compare(*same.sequence).equal());
}

TEST(KvImage, EachFlippedBitIsNamedByLayerPartHeadTokenAndDim) {
  std::mt19937 random(3);
  const KvGeometry g = SmallGeometry(5);
  FilledSequence filled = MakeFilled(g, 13);
  const KvImage image = KvImage::CopyOf(*filled.sequence);
  for (int round = 0; round < 300; ++round) {
    const KvCoordinate at = {
        static_cast<uint32_t>(random() % g.layers), static_cast<KvPart>(random() % 2),
        static_cast<uint32_t>(random() % g.kv_heads), static_cast<uint32_t>(random() % 13),
        static_cast<uint32_t>(random() % g.head_dim)};
    const std::string before = ToHex(filled.Element(at));
    const std::byte flip{static_cast<unsigned char>(1u << random() % 8)};
    std::byte& byte = filled.Element(at)[random() % 2];
    byte ^= flip;
    const KvComparison comparison = image.Compare(*filled.sequence);
    EXPECT_EQ(comparison.differing_bits, 1u);
    ASSERT_TRUE(comparison.first);
    EXPECT_EQ(comparison.first->check, Check::kPayload);
    EXPECT_EQ(comparison.first->layer, at.layer);
    EXPECT_EQ(comparison.first->kv, at.part);
    EXPECT_EQ(comparison.first->head, at.kv_head);
    EXPECT_EQ(comparison.first->token, at.token);
    EXPECT_EQ(comparison.first->dim, at.dim);
    EXPECT_EQ(comparison.first->expected, before);
    EXPECT_EQ(comparison.first->actual, ToHex(filled.Element(at)));
    EXPECT_EQ(comparison.first->id.key.block_index, at.token / 5);
    byte ^= flip;
  }
}

TEST(KvImage, TheFirstOfSeveralDifferencesIsNamedAndAllBitsCount) {
  FilledSequence filled = MakeFilled(SmallGeometry(5), 13);
  const KvImage image = KvImage::CopyOf(*filled.sequence);
  for (uint32_t token : {11u, 7u, 8u}) {
    filled.Element({2, KvPart::kV, 1, token, 3})[0] ^= std::byte{0x0f};
  }
  filled.Element({1, KvPart::kV, 1, 6, 3})[0] ^= std::byte{0x80};
  const KvComparison comparison = image.Compare(*filled.sequence);
  EXPECT_EQ(comparison.differing_bits, 13u);
  EXPECT_EQ(comparison.first->layer, 1u);
  EXPECT_EQ(comparison.first->token, 6u);
}

TEST(KvImage, RowsWithoutATokenMustBeZero) {
  FilledSequence filled = MakeFilled(SmallGeometry(5), 13);
  const KvImage image = KvImage::CopyOf(*filled.sequence);
  filled.Element({1, KvPart::kK, 0, 14, 2})[1] = std::byte{0x10};
  const KvComparison comparison = image.Compare(*filled.sequence);
  EXPECT_EQ(comparison.differing_bits, 1u);
  EXPECT_EQ(comparison.first->token, 14u);
  EXPECT_EQ(comparison.first->expected, "0000");
  EXPECT_EQ(comparison.first->actual, "0010");
}

TEST(KvImage, ThePaddingMustBeZero) {
  FilledSequence filled = MakeFilled(SmallGeometry(5), 13);
  const KvImage image = KvImage::CopyOf(*filled.sequence);
  filled.pool->record(filled.sequence->block_table()[1]).back() = std::byte{1};
  const KvComparison comparison = image.Compare(*filled.sequence);
  EXPECT_EQ(comparison.differing_bits, 1u);
  EXPECT_EQ(comparison.first->check, Check::kPadding);
  EXPECT_EQ(comparison.first->id.key.block_index, 1u);
}

// At the restore point the sequence has fewer tokens than the image of the cached run's end.
TEST(KvImage, AShorterSequenceIsComparedAsItWasThen) {
  const FilledSequence longer = MakeFilled(SmallGeometry(5), 13);
  FilledSequence shorter = MakeFilled(SmallGeometry(5), 8);
  const KvImage image = KvImage::CopyOf(*longer.sequence);
  const KvComparison comparison = image.Compare(*shorter.sequence);
  EXPECT_TRUE(comparison.equal());
  EXPECT_EQ(comparison.compared_bytes, image.ComparedBytesFor(8));
  // The image's own later rows must not be there yet.
  std::copy_n(longer.sequence->payload(1).begin(), shorter.sequence->payload(1).size(),
              shorter.sequence->payload(1).begin());
  EXPECT_FALSE(image.Compare(*shorter.sequence).equal());
}

TEST(KvImage, BlocksThatComeFromElsewhereAreComparedOneByOne) {
  const FilledSequence filled = MakeFilled(SmallGeometry(5), 13);
  const KvImage image = KvImage::CopyOf(*filled.sequence);
  KvComparison sum;
  for (uint64_t block : {2, 0, 1}) {
    std::vector<std::byte> payload(image.payload(block).begin(), image.payload(block).end());
    if (block == 1) payload[7] ^= std::byte{1};
    sum.Merge(image.CompareBlock(block, payload, 13));
  }
  EXPECT_EQ(sum.compared_bytes, image.ComparedBytesFor(13));
  EXPECT_EQ(sum.differing_bits, 1u);
  EXPECT_EQ(sum.first->byte_offset, 4096u + 6);
}

TEST(KvView, ShowsTheSameBytesOfSequenceAndImage) {
  const FilledSequence filled = MakeFilled(SmallGeometry(5), 13);
  const KvImage image = KvImage::CopyOf(*filled.sequence);
  const KvView a = KvView::Of(*filled.sequence), b = image.view();
  EXPECT_EQ(a.geometry, b.geometry);
  EXPECT_EQ(a.tokens, b.tokens);
  ASSERT_EQ(a.payloads.size(), 3u);
  ASSERT_EQ(b.payloads.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::equal(a.payloads[i].begin(), a.payloads[i].end(), b.payloads[i].begin(),
                           b.payloads[i].end()));
  }
}

}  // namespace
}  // namespace kvbed
