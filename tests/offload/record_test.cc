#include "offload/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "tests/offload/sample_records.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

// The finding of a record after `damage` was done to its bytes.
std::optional<Finding> FindingAfter(const std::function<void(MutableBytes)>& damage,
                                    const KvGeometry& geometry = TinyGeometry()) {
  SampleRecord record = MakeRecord(geometry, 3);
  damage(record.bytes());
  return record.Verify();
}

// What the check of a record says that a forger changed and then gave a right header checksum.
std::optional<Check> CheckAfterForging(const std::function<void(MutableBytes)>& forge) {
  const auto finding = FindingAfter([&](MutableBytes record) {
    forge(record);
    RecomputeHeaderChecksum(record);
  });
  return finding ? std::optional(finding->check) : std::nullopt;
}

// Reorders a payload and seals it again, as a writer with another layout would.
SampleRecord Reordered(const std::function<void(MutableBytes)>& reorder) {
  SampleRecord record = MakeRecord(TinyGeometry(), 5);
  reorder(record.payload());
  SealRecord(record.bytes(), record.header);
  return record;
}

TEST(Record, ASealedRecordVerifies) {
  for (uint32_t block_tokens : {1, 4, 5, 7, 16, 32}) {
    for (DType dtype : {DType::kBf16, DType::kFp32}) {
      KvGeometry geometry = TinyGeometry();
      geometry.block_tokens = block_tokens;
      geometry.dtype = dtype;
      SampleRecord record = MakeRecord(geometry, 1 + block_tokens / 2);
      EXPECT_FALSE(record.Verify()) << block_tokens;
      ASSERT_OK_AND_ASSIGN(const RecordHeader header, DecodeRecordHeader(record.bytes()));
      EXPECT_EQ(header, record.header);
      EXPECT_EQ(RecordDigestOf(record.bytes()), record.digest);
    }
  }
}

TEST(Record, SealingTwiceGivesTheSameBytes) {
  SampleRecord a = MakeRecord(TinyGeometry(), 3), b = MakeRecord(TinyGeometry(), 3);
  SealRecord(b.bytes(), b.header);
  EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin()));
}

TEST(Record, EveryByteIsCovered) {
  SampleRecord record = MakeRecord(TinyGeometry(), 3);
  std::mt19937_64 random(7);
  for (size_t i = 0; i < record.bytes().size(); ++i) {
    const std::byte flip{static_cast<unsigned char>(1u << random() % 8)};
    record.bytes()[i] ^= flip;
    const auto finding = record.Verify();
    ASSERT_TRUE(finding) << "byte " << i;
    EXPECT_EQ(finding->id, record.header.id);
    EXPECT_EQ(finding->first_token, 15u);
    EXPECT_EQ(finding->token_count, 3u);
    record.bytes()[i] ^= flip;
  }
  EXPECT_FALSE(record.Verify());
}

TEST(Record, ChecksComeInOrder) {
  const auto check_of = [](size_t byte) {
    return FindingAfter([&](MutableBytes r) { r[byte] ^= std::byte{1}; })->check;
  };
  EXPECT_EQ(check_of(0), Check::kMagic);
  EXPECT_EQ(check_of(7), Check::kMagic);
  EXPECT_EQ(check_of(8), Check::kVersion);
  for (size_t byte : {12, 16, 24, 32, 48, 72, 95, 120, 128, 144, 160, 4095}) {
    EXPECT_EQ(check_of(byte), Check::kHeaderChecksum) << byte;
  }
  EXPECT_EQ(check_of(4096), Check::kPayload);
  EXPECT_EQ(check_of(4096 + 319), Check::kPayload);
  EXPECT_EQ(check_of(4096 + 320), Check::kPadding);
  EXPECT_EQ(check_of(8191), Check::kPadding);
}

TEST(Record, AFindingNamesTheSliceThatFailed) {
  // Payload slices of 80 bytes: K of layer 0, V of layer 0, K of layer 1, V of layer 1.
  const auto finding = FindingAfter([](MutableBytes r) { r[4096 + 165] ^= std::byte{1}; });
  EXPECT_EQ(finding->layer, 1u);
  EXPECT_EQ(finding->kv, KvPart::kK);
  EXPECT_EQ(finding->byte_offset, 4096u + 160);
  EXPECT_NE(finding->expected, finding->actual);
  EXPECT_EQ(finding->message, "K of layer 1 does not match the digest");
}

TEST(Record, RowsWithoutATokenAreCovered) {
  const auto finding = FindingAfter([](MutableBytes r) { r[4096 + 39] = std::byte{1}; });
  EXPECT_EQ(finding->check, Check::kPayload);
}

TEST(Record, PoisonAndZeroesAreToldFromForeignBytes) {
  const auto all = [](std::byte value) {
    return FindingAfter([=](MutableBytes r) { std::fill(r.begin(), r.end(), value); });
  };
  EXPECT_EQ(all(kPoisonByte)->check, Check::kPoison);
  EXPECT_EQ(all(std::byte{0})->check, Check::kMagic);
  EXPECT_EQ(all(std::byte{0})->message, "the header page is all zeroes");
  EXPECT_EQ(all(std::byte{7})->check, Check::kMagic);
}

TEST(Record, ARecordOfAnotherLengthIsRefused) {
  SampleRecord record = MakeRecord(TinyGeometry(), 3);
  EXPECT_EQ(VerifyRecord(record.bytes().first(4096), record.header, record.digest)->check,
            Check::kLength);
  EXPECT_EQ(VerifyRecord(record.bytes().first(4095), record.header, record.digest)->check,
            Check::kShort);
  EXPECT_EQ(VerifyRecord({}, record.header, record.digest)->check, Check::kShort);
}

TEST(Record, AnotherRecordInItsPlaceIsNamed) {
  SampleRecord record = MakeRecord(TinyGeometry(), 3);
  const auto check_as = [&](const std::function<void(RecordHeader&)>& change) {
    RecordHeader other = record.header;
    change(other);
    SampleRecord there = MakeRecord(other);
    const auto finding = VerifyRecord(there.bytes(), record.header, record.digest);
    EXPECT_EQ(finding->id, record.header.id);
    return finding;
  };
  auto finding = check_as([](auto& h) { h.id.key.model_fingerprint.bytes[3] ^= std::byte{1}; });
  EXPECT_EQ(finding->check, Check::kFingerprint);
  finding = check_as([](auto& h) { h.id.key.sequence_id += 1; });
  EXPECT_EQ(finding->check, Check::kKey);
  finding = check_as([](auto& h) { h.id.key.block_index += 1; });
  EXPECT_EQ(finding->check, Check::kKey);
  EXPECT_EQ(finding->other_id->key.block_index, 4u);
  finding = check_as([](auto& h) { h.id.generation = 41; });
  EXPECT_EQ(finding->check, Check::kGeneration);
  EXPECT_EQ(finding->message, "an older state of this block is here");
  finding = check_as([](auto& h) { h.id.generation = 43; });
  EXPECT_EQ(finding->message, "a newer state of this block is here");
  finding = check_as([](auto& h) { h.first_position += 1; });
  EXPECT_EQ(finding->check, Check::kLayout);
  finding = check_as([](auto& h) { h.rope_identity += 1; });
  EXPECT_EQ(finding->check, Check::kLayout);
  finding = check_as([](auto& h) { h.tokens_used = 4; });
  EXPECT_EQ(finding->check, Check::kLayout);
}

// An intact record of the right id that is not the one that the manifest means.
TEST(Record, OtherContentsUnderTheSameIdAreFoundByTheManifestsDigest) {
  SampleRecord record = MakeRecord(TinyGeometry(), 3, 1), other = MakeRecord(TinyGeometry(), 3, 2);
  EXPECT_EQ(VerifyRecord(other.bytes(), record.header, record.digest)->check, Check::kManifest);
}

// Same bytes in number, another layout, digests and checksums recomputed.
TEST(Record, ReorderedAxesWithRecomputedChecksumsAreRefused) {
  const Digest128 right = MakeRecord(TinyGeometry(), 5).digest;
  SampleRecord swapped_kv = Reordered([](MutableBytes payload) {
    for (uint64_t layer = 0; layer < payload.size(); layer += 160) {
      std::swap_ranges(payload.begin() + layer, payload.begin() + layer + 80,
                       payload.begin() + layer + 80);
    }
  });
  EXPECT_EQ(VerifyRecord(swapped_kv.bytes(), swapped_kv.header, right)->check, Check::kManifest);
  SampleRecord token_major = Reordered([](MutableBytes payload) {
    const std::vector<std::byte> before(payload.begin(), payload.end());
    for (uint64_t part = 0; part < payload.size(); part += 80) {
      for (uint64_t row = 0; row < 10; ++row) {  // [head][token] -> [token][head]
        const uint64_t to = row % 5 * 2 + row / 5;
        std::copy_n(before.begin() + part + row * 8, 8, payload.begin() + part + to * 8);
      }
    }
  });
  EXPECT_EQ(VerifyRecord(token_major.bytes(), token_major.header, right)->check, Check::kManifest);
  SampleRecord untouched = Reordered([](MutableBytes) {});
  EXPECT_FALSE(VerifyRecord(untouched.bytes(), untouched.header, right));
}

// Each field alone, with the header checksum recomputed.
TEST(Record, ForgedHeaderFieldsAreRefused) {
  const auto u32 = [](size_t at, uint32_t value) {
    return [=](MutableBytes r) { StoreLe<uint32_t>(r, at, value); };
  };
  const auto u64 = [](size_t at, uint64_t value) {
    return [=](MutableBytes r) { StoreLe<uint64_t>(r, at, value); };
  };
  EXPECT_EQ(CheckAfterForging(u32(8, 2)), Check::kVersion);
  EXPECT_EQ(CheckAfterForging(u32(12, 1)), Check::kVersion);        // flags
  EXPECT_EQ(CheckAfterForging(u32(16, 8192)), Check::kLength);      // header bytes
  EXPECT_EQ(CheckAfterForging(u32(20, 2)), Check::kLength);         // dtype: lengths contradict
  EXPECT_EQ(CheckAfterForging(u32(20, 9)), Check::kLayout);         // dtype that isn't one
  EXPECT_EQ(CheckAfterForging(u64(24, 321)), Check::kLength);       // payload bytes
  EXPECT_EQ(CheckAfterForging(u64(32, 1)), Check::kFingerprint);    //
  EXPECT_EQ(CheckAfterForging(u64(48, 1)), Check::kKey);            // sequence
  EXPECT_EQ(CheckAfterForging(u64(56, 1)), Check::kKey);            // block
  EXPECT_EQ(CheckAfterForging(u64(64, 41)), Check::kGeneration);    //
  EXPECT_EQ(CheckAfterForging(u32(72, 2)), Check::kLayout);         // layout id
  EXPECT_EQ(CheckAfterForging(u32(76, 4)), Check::kLength);         // layers
  EXPECT_EQ(CheckAfterForging(u32(80, 1)), Check::kLength);         // KV heads
  EXPECT_EQ(CheckAfterForging(u32(84, 8)), Check::kLength);         // head_dim
  EXPECT_EQ(CheckAfterForging(u32(88, 6)), Check::kLength);         // block tokens
  EXPECT_EQ(CheckAfterForging(u32(92, 2)), Check::kLayout);         // tokens used
  EXPECT_EQ(CheckAfterForging(u32(92, 0)), Check::kLayout);         //
  EXPECT_EQ(CheckAfterForging(u32(92, 6)), Check::kLayout);         //
  EXPECT_EQ(CheckAfterForging(u64(96, 0)), Check::kLayout);         // first position
  EXPECT_EQ(CheckAfterForging(u64(104, 0)), Check::kLayout);        // RoPE
  EXPECT_EQ(CheckAfterForging(u32(112, 2)), Check::kLayout);        // layers per digest
  EXPECT_EQ(CheckAfterForging(u32(116, 3)), Check::kLayout);        // digests
  EXPECT_EQ(CheckAfterForging(u64(120, 1)), Check::kVersion);       // reserved
  EXPECT_EQ(CheckAfterForging(u64(128, 1)), Check::kManifest);      // record digest
  EXPECT_EQ(CheckAfterForging(u64(152, 1)), Check::kVersion);       // reserved
  EXPECT_EQ(CheckAfterForging(u64(160, 1)), Check::kManifest);      // a digest of the table
  EXPECT_EQ(CheckAfterForging(u64(160 + 32, 1)), Check::kVersion);  // behind the table
  EXPECT_EQ(CheckAfterForging(u64(4088, 1)), Check::kVersion);      //
  EXPECT_EQ(CheckAfterForging([](MutableBytes) {}), std::nullopt);
}

TEST(Record, AbsurdCountsWithARightChecksumAllocateNothing) {
  for (size_t at : {76, 80, 84, 88}) {
    for (uint32_t value : {0u, 1u << 20, (1u << 20) + 1, UINT32_MAX}) {
      const auto check =
          CheckAfterForging([&](MutableBytes r) { StoreLe<uint32_t>(r, at, value); });
      EXPECT_TRUE(check == Check::kLayout || check == Check::kLength) << at << " " << value;
    }
  }
  // Dimensions whose product wraps 2^64.
  EXPECT_EQ(CheckAfterForging([](MutableBytes r) {
              for (size_t at : {76, 80, 84, 88}) StoreLe<uint32_t>(r, at, 1 << 16);
            }),
            Check::kLayout);
}

TEST(Record, PayloadForgedWithItsTableButNotTheManifestIsRefused) {
  SampleRecord record = MakeRecord(TinyGeometry(), 3);
  record.payload()[0] ^= std::byte{1};
  StoreLe<uint64_t>(record.bytes(), 160, Xxh3_64(record.payload().first(80)));
  RecomputeHeaderChecksum(record.bytes());
  const auto finding = record.Verify();
  EXPECT_EQ(finding->check, Check::kManifest);
  EXPECT_EQ(finding->message, "the digest table is not the one in the manifest");
}

TEST(Record, AnyPageGivesAStatusAndNeverAHeaderByChance) {
  std::mt19937_64 random(3);
  SampleRecord record = MakeRecord(TinyGeometry(), 3);
  std::vector<std::byte> page(4096);
  for (int round = 0; round < 3000; ++round) {
    // Half of them begin like a header, so that the later checks are reached too.
    for (std::byte& b : page) b = static_cast<std::byte>(random());
    const size_t kept = round % 2 ? random() % 4096 : 0;
    std::copy_n(record.bytes().begin(), kept, page.begin());
    if (round % 4 == 1) RecomputeHeaderChecksum(page);
    EXPECT_FALSE(DecodeRecordHeader(page).ok()) << "round " << round;
    EXPECT_TRUE(VerifyRecord(page, record.header, record.digest)) << "round " << round;
  }
  for (size_t size : {0, 1, 8, 159, 4095}) {
    EXPECT_TRUE(FailsWith(DecodeRecordHeader(record.bytes().first(size)).status(),
                          StatusCode::kCorruption, "cut short"));
  }
}

TEST(Record, AnUnknownVersionOrFlagIsNotSupported) {
  SampleRecord record = MakeRecord(TinyGeometry(), 3);
  StoreLe<uint32_t>(record.bytes(), 8, 2);
  EXPECT_TRUE(
      FailsWith(DecodeRecordHeader(record.bytes()).status(), StatusCode::kNotSupported, "version"));
  StoreLe<uint32_t>(record.bytes(), 8, 1);
  StoreLe<uint32_t>(record.bytes(), 12, 1);
  RecomputeHeaderChecksum(record.bytes());
  EXPECT_TRUE(
      FailsWith(DecodeRecordHeader(record.bytes()).status(), StatusCode::kNotSupported, "flag"));
}

TEST(Record, LayersShareDigestsOnlyWhenThePageIsTooSmall) {
  EXPECT_EQ(LayersPerDigest(1), 1u);
  EXPECT_EQ(LayersPerDigest(246), 1u);
  EXPECT_EQ(LayersPerDigest(247), 2u);
  EXPECT_EQ(LayersPerDigest(492), 2u);
  EXPECT_EQ(LayersPerDigest(493), 3u);
  EXPECT_EQ(LayersPerDigest(1 << 20), 4263u);
}

TEST(Record, GroupedDigestsCoverEveryLayer) {
  const KvGeometry geometry = {
      .layers = 301, .kv_heads = 1, .head_dim = 2, .dtype = DType::kBf16, .block_tokens = 2};
  SampleRecord record = MakeRecord(geometry, 2);
  EXPECT_FALSE(record.Verify());
  for (uint32_t layer : {0u, 1u, 150u, 299u, 300u}) {
    for (KvPart part : {KvPart::kK, KvPart::kV}) {
      std::byte& b = record.payload()[geometry.PartOffset(layer, part)];
      b ^= std::byte{1};
      const auto finding = record.Verify();
      ASSERT_TRUE(finding);
      EXPECT_EQ(finding->check, Check::kPayload);
      EXPECT_EQ(finding->kv, part);
      // Layer 300 is alone in the last group; for the others no single layer is named.
      EXPECT_EQ(finding->layer, layer == 300 ? std::optional(300u) : std::nullopt);
      b ^= std::byte{1};
    }
  }
}

TEST(RecordDeathTest, ARecordWithoutATokenIsAProgrammingError) {
  EXPECT_DEATH(MakeRecord(TinyGeometry(), 0), "check failed");
}

}  // namespace
}  // namespace kvbed
