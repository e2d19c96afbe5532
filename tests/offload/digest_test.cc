#include "offload/digest.h"
#include "tests/support/random_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace kvbed {
namespace {

// The values of the empty input are in xxHash's documentation; the others are what `xxhsum` prints.
TEST(Digest, KnownValues) {
  EXPECT_EQ(Xxh3_64({}), 0x2d06800538d394c2u);
  EXPECT_EQ(Xxh3_128({}).ToHex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(Xxh3_64(AsBytes("kvbed")), 0xafb87ec2c3414726u);
  EXPECT_EQ(Xxh3_128(AsBytes("kvbed")).ToHex(), "4f6edcca3aaa6b2f3d8b885c57eeec98");
}

// All of XXH3's length classes, and more than one of its stripes and blocks.
TEST(Digest, StreamingEqualsOneShotHoweverTheBytesAreCut) {
  std::mt19937_64 random(5);
  for (size_t size :
       {0, 1, 3, 8, 16, 17, 128, 129, 240, 241, 256, 512, 1023, 1024, 1025, 6144, 70000}) {
    const std::vector<std::byte> bytes = RandomBytes(size, size);
    Xxh3Stream stream;
    for (size_t at = 0; at < size;) {
      const size_t piece = std::min<size_t>(size - at, 1 + random() % 700);
      stream.Add(Bytes(bytes).subspan(at, piece));
      at += piece;
    }
    EXPECT_EQ(stream.Finish64(), Xxh3_64(bytes)) << size;
    EXPECT_EQ(stream.Finish128(), Xxh3_128(bytes)) << size;
  }
}

TEST(Digest, AStreamCanBeReadAndGoOn) {
  const std::vector<std::byte> bytes = RandomBytes(3000, 1);
  Xxh3Stream stream;
  stream.Add(Bytes(bytes).first(1000));
  EXPECT_EQ(stream.Finish64(), Xxh3_64(Bytes(bytes).first(1000)));
  stream.Add(Bytes(bytes).subspan(1000));
  EXPECT_EQ(stream.Finish64(), Xxh3_64(bytes));
}

TEST(Digest, EachFlippedBitChangesBothDigests) {
  for (size_t size : {1, 16, 100, 200, 2000}) {
    std::vector<std::byte> bytes = RandomBytes(size, size);
    std::set<uint64_t> seen64 = {Xxh3_64(bytes)};
    std::set<Digest128> seen128 = {Xxh3_128(bytes)};
    for (size_t bit = 0; bit < size * 8; ++bit) {
      const std::byte mask{static_cast<unsigned char>(1u << bit % 8)};
      bytes[bit / 8] ^= mask;
      EXPECT_TRUE(seen64.insert(Xxh3_64(bytes)).second);
      EXPECT_TRUE(seen128.insert(Xxh3_128(bytes)).second);
      bytes[bit / 8] ^= mask;
    }
  }
}

TEST(Digest, FieldsAreToldApartByTheirLength) {
  const auto digest = [](std::vector<std::string_view> fields) {
    Xxh3Stream stream;
    for (std::string_view field : fields) stream.AddField(AsBytes(field));
    return stream.Finish128();
  };
  EXPECT_NE(digest({"ab", "c"}), digest({"a", "bc"}));
  EXPECT_NE(digest({"a", ""}), digest({"a"}));
  EXPECT_NE(digest({"", "a"}), digest({"a", ""}));
  EXPECT_EQ(digest({"ab", "c"}), digest({"ab", "c"}));
}

}  // namespace
}  // namespace kvbed
