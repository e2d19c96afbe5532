#include "offload/flipped_bit.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "offload/digest.h"
#include "tests/support/random_bytes.h"

namespace kvbed {
namespace {

std::optional<uint64_t> FoundAfterFlipping(std::vector<std::byte> bytes, uint64_t bit) {
  const uint64_t wanted = Xxh3_64(bytes);
  bytes[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << bit % 8)};
  const std::vector<std::byte> before = bytes;
  const auto found = FindFlippedBit(bytes, wanted);
  EXPECT_EQ(bytes, before);
  return found;
}

TEST(FlippedBit, EachBitOfShortInputs) {
  for (size_t size : {1, 3, 8, 16, 100, 200, 240, 241, 255, 256, 320}) {
    const auto bytes = RandomBytes(size, size);
    for (uint64_t bit = 0; bit < size * 8; bit += 1 + size / 50) {
      EXPECT_EQ(FoundAfterFlipping(bytes, bit), bit) << "of " << size << " bytes";
    }
  }
}

// Around the ends of stripes (64 bytes) and blocks (1024 bytes), and the bytes that two stripes
// cover.
TEST(FlippedBit, SomeBitsOfLongInputs) {
  std::mt19937_64 random(1);
  for (size_t size : {1023, 1024, 1025, 1087, 1088, 1089, 2048, 2049, 6144, 10000, 32768}) {
    const auto bytes = RandomBytes(size, size);
    std::vector<uint64_t> bits = {
        0, 63, 64, 8 * 1024 - 1, 8 * (size - 65), 8 * (size - 64), 8 * (size - 1), 8 * size - 1};
    for (int i = 0; i < 12; ++i) bits.push_back(random() % (size * 8));
    for (uint64_t bit : bits) {
      if (bit >= size * 8) continue;
      EXPECT_EQ(FoundAfterFlipping(bytes, bit), bit) << "of " << size << " bytes";
    }
  }
}

TEST(FlippedBit, TheLargestInput) {
  const auto bytes = RandomBytes(kFlippedBitBytesMax, 5);
  EXPECT_EQ(FoundAfterFlipping(bytes, 77'777), 77'777u);
  std::vector<std::byte> larger = RandomBytes(kFlippedBitBytesMax + 1, 6);
  const uint64_t wanted = Xxh3_64(larger);
  larger[0] ^= std::byte{1};
  EXPECT_EQ(FindFlippedBit(larger, wanted), std::nullopt);
}

TEST(FlippedBit, NoneWhenMoreOrLessThanOneBitDiffers) {
  for (size_t size : {5, 200, 3000}) {
    std::vector<std::byte> bytes = RandomBytes(size, size);
    const uint64_t wanted = Xxh3_64(bytes);
    EXPECT_EQ(FindFlippedBit(bytes, wanted), std::nullopt);
    bytes[2] ^= std::byte{5};
    EXPECT_EQ(FindFlippedBit(bytes, wanted), std::nullopt);
  }
  EXPECT_EQ(FindFlippedBit({}, 1), std::nullopt);
}

}  // namespace
}  // namespace kvbed
