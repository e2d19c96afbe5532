#include "offload/manifest.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "tests/offload/golden_samples.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

// Gives forged bytes the checksum that fits them: the last 16 bytes, XXH3-128 of those before.
void RecomputeChecksum(std::string& bytes) {
  const Digest128 digest = Xxh3_128(AsBytes(bytes).first(bytes.size() - 16));
  std::memcpy(bytes.data() + bytes.size() - 16, digest.bytes.data(), 16);
}

// Where a 64-bit field with this value stands in the encoding.
size_t FindU64(const std::string& bytes, uint64_t value) {
  const std::string field(reinterpret_cast<const char*>(&value), 8);
  const size_t at = bytes.find(field);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(bytes.find(field, at + 1), std::string::npos) << "not the only one";
  return at;
}

Status DecodeAfter(const std::function<void(Manifest&)>& change) {
  Manifest manifest = SampleManifest();
  change(manifest);
  return DecodeManifest(AsBytes(EncodeManifest(manifest))).status();
}

TEST(Manifest, RoundTrip) {
  const Manifest manifest = SampleManifest();
  ASSERT_OK_AND_ASSIGN(const Manifest decoded, DecodeManifest(AsBytes(EncodeManifest(manifest))));
  EXPECT_EQ(decoded, manifest);
  EXPECT_EQ(decoded.pending_token(), 1084);
  EXPECT_EQ(decoded.stored_bytes(), 3u * 8192);
}

TEST(Manifest, WithoutAPendingToken) {
  Manifest manifest = SampleManifest();
  manifest.token_ids.pop_back();
  ASSERT_OK_AND_ASSIGN(const Manifest decoded, DecodeManifest(AsBytes(EncodeManifest(manifest))));
  EXPECT_EQ(decoded.pending_token(), std::nullopt);
}

TEST(Manifest, ExpectedHeaders) {
  const Manifest manifest = SampleManifest();
  const RecordHeader header = manifest.ExpectedHeader(2);
  EXPECT_EQ(header.id, manifest.blocks[2].id);
  EXPECT_EQ(header.tokens_used, 2u);
  EXPECT_EQ(header.first_position, 10u);
  EXPECT_EQ(header.rope_identity, manifest.rope_identity);
  EXPECT_EQ(header.geometry, manifest.geometry);
}

TEST(Manifest, EveryFlippedByteIsFound) {
  std::string bytes = EncodeManifest(SampleManifest());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int flip : {1, 0x80, 0xff}) {
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      EXPECT_FALSE(DecodeManifest(AsBytes(bytes)).ok()) << "byte " << i;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
    }
  }
  EXPECT_OK(DecodeManifest(AsBytes(bytes)));
}

TEST(Manifest, EveryTruncationIsFound) {
  const std::string bytes = EncodeManifest(SampleManifest());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeManifest(AsBytes(bytes).first(size)).ok()) << size;
    // Also when the shorter manifest has a checksum that fits.
    if (size < 32) continue;
    std::string shorter = bytes.substr(0, size);
    RecomputeChecksum(shorter);
    EXPECT_TRUE(FailsWith(DecodeManifest(AsBytes(shorter)).status(), StatusCode::kCorruption))
        << size;
  }
  std::string longer = bytes + std::string(16, '\0');
  RecomputeChecksum(longer);
  EXPECT_FALSE(DecodeManifest(AsBytes(longer)).ok());
}

TEST(Manifest, AbsurdCountsWithARightChecksumAllocateNothing) {
  Manifest manifest = SampleManifest();
  manifest.sampler.draws = 5;  // so that a 3 is the number of blocks
  const std::string bytes = EncodeManifest(manifest);
  for (uint64_t count : {uint64_t{13}, uint64_t{3}}) {  // of token ids, of blocks
    const size_t at = FindU64(bytes, count);
    for (uint64_t absurd : {uint64_t{1} << 60, uint64_t{1} << 40, UINT64_MAX, uint64_t{14}}) {
      std::string forged = bytes;
      std::memcpy(forged.data() + at, &absurd, 8);
      RecomputeChecksum(forged);
      EXPECT_TRUE(FailsWith(DecodeManifest(AsBytes(forged)).status(), StatusCode::kCorruption));
    }
  }
}

// 2^64 - 1 cached tokens and no token id: both differences wrap round to what fits.
TEST(Manifest, CountsThatWrapRoundAreRefused) {
  EXPECT_TRUE(FailsWith(DecodeAfter([](Manifest& m) {
                          m.cached_tokens = UINT64_MAX;
                          m.prompt_tokens = 0;
                          m.token_ids.clear();
                          m.blocks.clear();
                        }),
                        StatusCode::kCorruption, "token ids"));
}

TEST(Manifest, UnknownVersionsAndFlagsAreNotSupported) {
  std::string bytes = EncodeManifest(SampleManifest());
  bytes[8] = 2;
  RecomputeChecksum(bytes);
  EXPECT_TRUE(
      FailsWith(DecodeManifest(AsBytes(bytes)).status(), StatusCode::kNotSupported, "version 2"));
  bytes = EncodeManifest(SampleManifest());
  bytes[12] = 1;
  RecomputeChecksum(bytes);
  EXPECT_TRUE(
      FailsWith(DecodeManifest(AsBytes(bytes)).status(), StatusCode::kNotSupported, "flags"));
}

TEST(Manifest, BrokenInvariantsAreCorruption) {
  const std::vector<std::function<void(Manifest&)>> changes = {
      [](Manifest& m) { m.name = "../x"; },
      [](Manifest& m) { m.name.clear(); },
      [](Manifest& m) { m.sequence_id = 0; },
      [](Manifest& m) { m.cached_tokens = 11; },
      [](Manifest& m) { m.cached_tokens = 14; },
      [](Manifest& m) { m.token_ids.push_back(1); },
      [](Manifest& m) { m.prompt_tokens = 14; },
      [](Manifest& m) { m.blocks.pop_back(); },
      [](Manifest& m) { m.blocks.push_back(m.blocks.back()); },
      [](Manifest& m) { std::swap(m.blocks[0], m.blocks[1]); },
      [](Manifest& m) { m.blocks[1].tokens_used = 4; },
      [](Manifest& m) { m.blocks[2].tokens_used = 5; },
      [](Manifest& m) { m.blocks[1].id.generation = 0; },
      [](Manifest& m) { m.blocks[1].id.key.sequence_id += 1; },
      [](Manifest& m) { m.model.weights.bytes[0] ^= std::byte{1}; },
      [](Manifest& m) { m.geometry.layers = 0; },
      [](Manifest& m) { m.geometry.block_tokens = 6; },
      [](Manifest& m) { m.geometry.dtype = static_cast<DType>(0); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_TRUE(FailsWith(DecodeAfter(changes[i]), StatusCode::kCorruption)) << i;
  }
  EXPECT_OK(DecodeAfter([](Manifest&) {}));
}

TEST(Manifest, RandomBytesGiveAStatus) {
  std::mt19937_64 random(9);
  const std::string good = EncodeManifest(SampleManifest());
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(random() % 600, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const size_t kept = std::min<size_t>(bytes.size(), random() % good.size());
    if (round % 2) std::copy_n(good.begin(), kept, bytes.begin());
    if (bytes.size() > 16 && round % 4 == 1) RecomputeChecksum(bytes);
    EXPECT_FALSE(DecodeManifest(AsBytes(bytes)).ok()) << "round " << round;
  }
}

// One field after another overwritten, with a checksum that fits: an error or a valid manifest.
TEST(Manifest, ForgedBytesWithARightChecksumAreRefusedOrValid) {
  std::mt19937_64 random(10);
  const std::string good = EncodeManifest(SampleManifest());
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = good;
    for (int i = 0; i < 1 + round % 8; ++i) {
      bytes[random() % (bytes.size() - 16)] = static_cast<char>(random() % 3 ? random() : 0xff);
    }
    RecomputeChecksum(bytes);
    const auto manifest = DecodeManifest(AsBytes(bytes));
    EXPECT_TRUE(!manifest.ok() || ValidateManifest(*manifest).ok());
  }
}

TEST(Manifest, SnapshotNames) {
  for (const char* good : {"s1", "a", "A-b_c.9", "run-2026-01-01"}) {
    EXPECT_OK(ValidateSnapshotName(good)) << good;
  }
  EXPECT_OK(ValidateSnapshotName(std::string(128, 'x')));
  for (const char* bad : {"", ".", "..", ".hidden", "a/b", "a b", "a#b", "\xc3\xa4", "a\n"}) {
    EXPECT_TRUE(FailsWith(ValidateSnapshotName(bad), StatusCode::kInvalidArgument)) << bad;
  }
  EXPECT_FALSE(ValidateSnapshotName(std::string(129, 'x')).ok());
  EXPECT_FALSE(ValidateSnapshotName(std::string_view("a\0b", 3)).ok());
}

}  // namespace
}  // namespace kvbed
