#include "offload/bytes.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvbed {
namespace {

TEST(Bytes, FieldsAreLittleEndian) {
  std::array<std::byte, 12> out{};
  StoreLe<uint32_t>(out, 1, 0x11223344);
  EXPECT_EQ(ToHex(out), "004433221100000000000000");
  EXPECT_EQ(LoadLe<uint32_t>(out, 1), 0x11223344u);
  StoreLe<uint64_t>(out, 4, 0x0102030405060708);
  EXPECT_EQ(ToHex(Bytes(out).subspan(4)), "0807060504030201");
}

TEST(BytesDeathTest, AFieldBeyondTheEndIsAProgrammingError) {
  std::array<std::byte, 8> out{};
  EXPECT_DEATH(StoreLe<uint64_t>(out, 1, 0), "check failed");
  EXPECT_DEATH(LoadLe<uint32_t>(out, 5), "check failed");
}

TEST(Bytes, RoundUp) {
  EXPECT_EQ(RoundUp(0, 4096), 0u);
  EXPECT_EQ(RoundUp(1, 4096), 4096u);
  EXPECT_EQ(RoundUp(4096, 4096), 4096u);
  EXPECT_EQ(RoundUp(4097, 4096), 8192u);
}

TEST(Bytes, AllZeroSeesEachByte) {
  for (size_t size : {0, 1, 2, 7, 8, 9, 64, 4096}) {
    std::vector<std::byte> bytes(size);
    EXPECT_TRUE(AllZero(bytes)) << size;
    for (size_t i = 0; i < size; ++i) {
      bytes[i] = std::byte{1};
      EXPECT_FALSE(AllZero(bytes)) << i << " of " << size;
      bytes[i] = std::byte{0};
    }
  }
  EXPECT_FALSE(AllZero(std::vector<std::byte>(100, std::byte{7})));
}

TEST(Bytes, HexGoesBothWays) {
  EXPECT_EQ(ToHex(AsBytes("Az\xff")), "417aff");
  EXPECT_EQ(FromHex("417aFF"), "Az\xff");
  EXPECT_EQ(FromHex(""), "");
}

TEST(Bytes, WhatIsNoHexIsRefused) {
  for (const char* text : {"4", "4g", "0x41", " 41", "41 "}) {
    EXPECT_EQ(FromHex(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace kvbed
