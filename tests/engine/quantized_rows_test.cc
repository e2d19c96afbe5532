// Dequantising gives the bits that ggml's own gives, at any alignment.
#include "engine/model/quantized_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/model/float_formats.h"
#include "tests/engine/golden_model.h"

namespace kvbed {
namespace {

constexpr StoredType kQuantized[] = {StoredType::kQ4_0, StoredType::kQ4_1, StoredType::kQ5_0,
                                     StoredType::kQ5_1, StoredType::kQ8_0, StoredType::kQ4_K,
                                     StoredType::kQ5_K, StoredType::kQ6_K};

std::string AsString(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST(QuantizedRows, EqualGgmlBitForBit) {
  for (const StoredType type : kQuantized) {
    const std::string name(StoredTypeName(type));
    const std::string stored = ReadGoldenModel("quant/" + name + ".bin");
    std::vector<float> values(6 * 512);
    ASSERT_EQ(StoredBytes(type, values.size()), stored.size()) << name;
    Dequantize(type, AsBytes(stored), values);
    EXPECT_EQ(AsString(values), ReadGoldenModel("quant/" + name + ".f32")) << name;
  }
}

TEST(QuantizedRows, DifferWhenAStoredByteDoes) {
  for (const StoredType type : kQuantized) {
    const std::string name(StoredTypeName(type));
    std::string stored = ReadGoldenModel("quant/" + name + ".bin");
    stored[stored.size() / 2] = static_cast<char>(stored[stored.size() / 2] ^ 0x11);
    std::vector<float> values(6 * 512);
    Dequantize(type, AsBytes(stored), values);
    EXPECT_NE(AsString(values), ReadGoldenModel("quant/" + name + ".f32")) << name;
  }
}

TEST(QuantizedRows, DontDependOnAlignment) {
  for (const StoredType type : kQuantized) {
    const std::string name(StoredTypeName(type));
    const std::string stored = ReadGoldenModel("quant/" + name + ".bin");
    for (size_t shift = 1; shift < 4; ++shift) {
      const std::string shifted = std::string(shift, '?') + stored;
      std::vector<float> values(6 * 512);
      Dequantize(type, AsBytes(shifted).subspan(shift), values);
      EXPECT_EQ(AsString(values), ReadGoldenModel("quant/" + name + ".f32")) << name << shift;
    }
  }
}

TEST(StoredBytes, RefusesPartsOfBlocksAndOverflow) {
  EXPECT_EQ(StoredBytes(StoredType::kQ4_K, 512), 288u);
  EXPECT_EQ(StoredBytes(StoredType::kBf16, 3), 6u);
  EXPECT_FALSE(StoredBytes(StoredType::kQ4_K, 288));
  EXPECT_FALSE(StoredBytes(StoredType::kF32, uint64_t{1} << 62));
}

TEST(Fp16, EveryBitPatternWidensToItsValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    const float value = Fp16ToFloat(static_cast<uint16_t>(bits));
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    const double expected =
        exponent == 31  ? sign * INFINITY
        : exponent == 0 ? sign * mantissa * 0x1p-24
                        : sign * std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
    EXPECT_EQ(value, expected) << bits;
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
  }
}

TEST(Bf16, RoundsToNearestWithTiesToEven) {
  const auto rounded = [](uint32_t bits) { return FloatToBf16(std::bit_cast<float>(bits)); };
  EXPECT_EQ(rounded(0x3f800000), 0x3f80);
  EXPECT_EQ(rounded(0x3f807fff), 0x3f80);
  EXPECT_EQ(rounded(0x3f808000), 0x3f80) << "a tie goes to the even one below";
  EXPECT_EQ(rounded(0x3f818000), 0x3f82) << "a tie goes to the even one above";
  EXPECT_EQ(rounded(0x3f808001), 0x3f81);
  EXPECT_EQ(rounded(0x7f7fffff), 0x7f80) << "what is too large becomes infinite";
  EXPECT_EQ(rounded(0xff800000), 0xff80);
  EXPECT_EQ(rounded(0x7f800001), 0x7fc0) << "a NaN stays one";
  EXPECT_EQ(rounded(0x00008000), 0x0000);
  EXPECT_EQ(rounded(0x80018000), 0x8002) << "denormals round like the others";
}

TEST(Bf16, SurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = Bf16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(FloatToBf16(value), bits);
  }
}

}  // namespace
}  // namespace kvbed
