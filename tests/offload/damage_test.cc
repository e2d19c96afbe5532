#include "offload/damage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/offload/sample_records.h"

namespace kvbed {
namespace {

// Slices of 2,560 bytes, three pages and a bit in all.
KvGeometry MiddleGeometry() {
  return {.layers = 3, .kv_heads = 2, .head_dim = 64, .dtype = DType::kBf16, .block_tokens = 10};
}

// The finding of a damaged record, explained.
Finding Explained(SampleRecord& record) {
  auto finding = record.Verify();
  EXPECT_TRUE(finding);
  if (!finding) return {};
  ExplainDamage(record.bytes(), record.header, record.digest, *finding);
  return *finding;
}

// Moves the whole record `by` bytes on (or back); `filler` comes in.
void Shift(MutableBytes record, int64_t by, std::byte filler = std::byte{0}) {
  const std::vector<std::byte> before(record.begin(), record.end());
  std::fill(record.begin(), record.end(), filler);
  for (int64_t i = 0; i < static_cast<int64_t>(record.size()); ++i) {
    const int64_t to = i + by;
    if (to >= 0 && to < static_cast<int64_t>(record.size())) record[to] = before[i];
  }
}

TEST(Damage, AFlippedBitIsNamedDownToTheElement) {
  std::mt19937_64 random(1);
  const KvGeometry geometry = MiddleGeometry();
  for (int round = 0; round < 20; ++round) {
    SampleRecord record = MakeRecord(geometry, 10);
    const KvCoordinate at = geometry.CoordinateAt(random() % geometry.payload_bytes());
    const uint64_t offset = 4096 + geometry.ElementOffset(at) + random() % 2;
    const std::byte before = record.bytes()[offset];
    record.bytes()[offset] ^= std::byte{static_cast<unsigned char>(1u << random() % 8)};
    const Finding finding = Explained(record);
    EXPECT_EQ(finding.damage, Damage::kBit);
    EXPECT_EQ(finding.byte_offset, offset);
    EXPECT_EQ(finding.layer, at.layer);
    EXPECT_EQ(finding.kv, at.part);
    EXPECT_EQ(finding.head, at.kv_head);
    EXPECT_EQ(finding.token, 30u + at.token);
    EXPECT_EQ(finding.dim, at.dim);
    EXPECT_EQ(finding.expected, ToHex({&before, 1}));
    EXPECT_EQ(finding.actual, ToHex(record.bytes().subspan(offset, 1)));
  }
}

TEST(Damage, TwoFlippedBitsInOneSliceAreLeftOpen) {
  SampleRecord record = MakeRecord(MiddleGeometry(), 10);
  record.payload()[10] ^= std::byte{3};
  EXPECT_EQ(Explained(record).damage, std::nullopt);
}

TEST(Damage, RandomBytesAreLeftOpen) {
  std::mt19937_64 random(2);
  SampleRecord record = MakeRecord(MiddleGeometry(), 10);
  for (std::byte& b : record.payload().subspan(3000, 100)) b = static_cast<std::byte>(random());
  EXPECT_EQ(Explained(record).damage, std::nullopt);
  for (std::byte& b : record.bytes()) b = static_cast<std::byte>(random());
  EXPECT_EQ(Explained(record).damage, std::nullopt);
}

TEST(Damage, AFlippedBitOfTheHeaderIsNamedWhenThePayloadIsRight) {
  for (size_t byte : {0, 8, 12, 40, 64, 92, 130, 147, 170, 4000}) {
    SampleRecord record = MakeRecord(MiddleGeometry(), 10);
    record.bytes()[byte] ^= std::byte{0x10};
    const Finding finding = Explained(record);
    EXPECT_EQ(finding.damage, Damage::kBit) << byte;
    EXPECT_EQ(finding.byte_offset, byte);
    record.bytes()[5000] ^= std::byte{1};
    EXPECT_EQ(Explained(record).damage, std::nullopt);  // no longer known
  }
}

TEST(Damage, OneBitOfThePadding) {
  SampleRecord record = MakeRecord(TinyGeometry(), 5);
  record.bytes()[8000] = std::byte{4};
  const Finding finding = Explained(record);
  EXPECT_EQ(finding.damage, Damage::kBit);
  EXPECT_EQ(finding.byte_offset, 8000u);
  record.bytes()[8001] = std::byte{4};
  EXPECT_EQ(Explained(record).damage, std::nullopt);
}

TEST(Damage, Zeroes) {
  SampleRecord record = MakeRecord(MiddleGeometry(), 10);
  std::fill(record.bytes().begin(), record.bytes().end(), std::byte{0});
  EXPECT_EQ(Explained(record).damage, Damage::kZeroed);

  record = MakeRecord(MiddleGeometry(), 10);
  std::fill_n(record.bytes().begin(), 4096, std::byte{0});  // the header page
  EXPECT_EQ(Explained(record).damage, Damage::kZeroed);

  record = MakeRecord(MiddleGeometry(), 10);
  std::fill_n(record.bytes().begin(), 512, std::byte{0});  // a sector of it
  EXPECT_EQ(Explained(record).damage, Damage::kZeroed);

  record = MakeRecord(MiddleGeometry(), 10);
  std::fill_n(record.payload().begin() + 2560, 2560, std::byte{0});  // one slice
  const Finding finding = Explained(record);
  EXPECT_EQ(finding.damage, Damage::kZeroed);
  EXPECT_EQ(finding.layer, 0u);
  EXPECT_EQ(finding.kv, KvPart::kV);
}

TEST(Damage, PartOfASliceThatIsZeroProvesNothing) {
  SampleRecord record = MakeRecord(MiddleGeometry(), 10);
  std::fill_n(record.payload().begin() + 100, 1000, std::byte{0});
  EXPECT_EQ(Explained(record).damage, std::nullopt);
}

TEST(Damage, Torn) {
  const KvGeometry geometry = MiddleGeometry();
  SampleRecord record = MakeRecord(geometry, 10);
  SampleRecord older = MakeRecord(geometry, 10, 99);
  std::copy(older.bytes().begin() + 8192, older.bytes().end(), record.bytes().begin() + 8192);
  const Finding finding = Explained(record);  // the rest is another write's
  EXPECT_EQ(finding.damage, Damage::kTorn);
  EXPECT_EQ(finding.layer, 0u);

  record = MakeRecord(geometry, 10);
  std::fill(record.bytes().begin() + 8192, record.bytes().end(), std::byte{0});
  EXPECT_EQ(Explained(record).damage, Damage::kTorn);  // the rest never came
}

TEST(Damage, AHoleThatIsFollowedByTheRestIsNotTorn) {
  SampleRecord record = MakeRecord(MiddleGeometry(), 10);
  std::fill_n(record.payload().begin() + 2560, 2 * 2560, std::byte{0});
  EXPECT_EQ(Explained(record).damage, Damage::kZeroed);
}

TEST(Damage, Shifted) {
  for (int64_t by : {1, 2, 100, 511, 512, 4096, -1, -8, -100, -200, -512, -1024, -4096}) {
    SampleRecord record = MakeRecord(MiddleGeometry(), 10);
    Shift(record.bytes(), by);
    const Finding finding = Explained(record);
    EXPECT_EQ(finding.damage, Damage::kShifted) << by;
    EXPECT_EQ(finding.actual, (by > 0 ? "+" : "") + std::to_string(by) + " bytes");
  }
}

TEST(Damage, AMovedPayloadBehindItsHeader) {
  SampleRecord record = MakeRecord(MiddleGeometry(), 10);
  Shift(record.bytes().subspan(4096), 2);
  EXPECT_EQ(Explained(record).damage, Damage::kShifted);
}

TEST(Damage, AMagicAloneIsNoShiftedRecord) {
  SampleRecord record = MakeRecord(MiddleGeometry(), 10);
  std::copy_n(record.bytes().begin(), 8, record.bytes().begin() + 600);
  std::fill_n(record.bytes().begin(), 8, std::byte{7});
  EXPECT_EQ(Explained(record).damage, std::nullopt);
}

TEST(Damage, AnotherRecordInItsPlace) {
  RecordHeader header = SampleHeader(MiddleGeometry(), 10);
  header.id.key.block_index = 8;
  header.first_position = 80;
  SampleRecord record = MakeRecord(MiddleGeometry(), 10), other = MakeRecord(header, 5);
  std::copy(other.bytes().begin(), other.bytes().end(), record.bytes().begin());
  Finding finding = Explained(record);
  EXPECT_EQ(finding.check, Check::kKey);
  EXPECT_EQ(finding.damage, Damage::kEqualsOther);
  EXPECT_EQ(finding.other_id, header.id);
  // Only its header page: then it is not the other record.
  record = MakeRecord(MiddleGeometry(), 10);
  std::copy_n(other.bytes().begin(), 4096, record.bytes().begin());
  finding = Explained(record);
  EXPECT_EQ(finding.check, Check::kKey);
  EXPECT_EQ(finding.damage, std::nullopt);
}

TEST(Damage, ByteOrder) {
  for (DType dtype : {DType::kBf16, DType::kFp32}) {
    KvGeometry geometry = MiddleGeometry();
    geometry.dtype = dtype;
    SampleRecord record = MakeRecord(geometry, 10);
    const auto size = static_cast<ptrdiff_t>(geometry.element_bytes());
    for (auto at = record.payload().begin(); at != record.payload().end(); at += size) {
      std::reverse(at, at + size);
    }
    EXPECT_EQ(Explained(record).damage, Damage::kByteOrder);
  }
}

TEST(Damage, PoisonNeedsNoExplanation) {
  SampleRecord record = MakeRecord(MiddleGeometry(), 10);
  std::fill(record.bytes().begin(), record.bytes().end(), kPoisonByte);
  EXPECT_EQ(Explained(record).damage, std::nullopt);
}

TEST(Damage, GroupedDigests) {
  const KvGeometry geometry = {
      .layers = 301, .kv_heads = 1, .head_dim = 2, .dtype = DType::kBf16, .block_tokens = 2};
  SampleRecord record = MakeRecord(geometry, 2);
  const uint64_t offset = geometry.ElementOffset({151, KvPart::kV, 0, 1, 1});
  record.payload()[offset] ^= std::byte{0x80};
  const Finding finding = Explained(record);
  EXPECT_EQ(finding.damage, Damage::kBit);
  EXPECT_EQ(finding.layer, 151u);
  EXPECT_EQ(finding.byte_offset, 4096 + offset);
}

// Whatever happens to a record, explaining it doesn't crash, and what was no damage isn't called
// so.
TEST(Damage, SurvivesAnything) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    SampleRecord record =
        MakeRecord(MiddleGeometry(), static_cast<uint32_t>(1 + random() % 10), seed);
    for (uint64_t strikes = 1 + random() % 4; strikes > 0; --strikes) {
      const size_t at = random() % record.bytes().size();
      const size_t size = std::min<size_t>(1 + random() % 3000, record.bytes().size() - at);
      const auto value = static_cast<std::byte>(random() % 3 ? random() : 0);
      std::fill_n(record.bytes().begin() + at, size, value);
      if (random() % 2) RecomputeHeaderChecksum(record.bytes());
    }
    auto finding = record.Verify();
    if (finding) ExplainDamage(record.bytes(), record.header, record.digest, *finding);
  }
}

}  // namespace
}  // namespace kvbed
