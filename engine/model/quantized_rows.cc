#include "engine/model/quantized_rows.h"

#include <algorithm>

#include "engine/model/float_formats.h"

// Formulas and block layouts: ggml-quants.c (dequantize_row_*) and ggml-common.h of llama.cpp. Each
// operation rounds to fp32 by itself: this file must not be compiled with contraction to FMA.

namespace kvbed {
namespace {

float LoadFp16(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return Fp16ToFloat(bits);
}

uint32_t LoadU32(const std::byte* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

int Low(std::byte b) { return std::to_integer<int>(b & std::byte{15}); }
int High(std::byte b) { return std::to_integer<int>(b >> 4); }
int Signed(std::byte b) { return static_cast<int8_t>(std::to_integer<uint8_t>(b)); }

// 32 elements: d fp16; 16 bytes of two 4-bit numbers each, element j low and j + 16 high.
void Q4_0(const std::byte* block, float* out) {
  const float d = LoadFp16(block);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(Low(block[2 + j]) - 8) * d;
    out[j + 16] = static_cast<float>(High(block[2 + j]) - 8) * d;
  }
}

// As Q4_0 with an offset: d fp16, m fp16, 16 bytes.
void Q4_1(const std::byte* block, float* out) {
  const float d = LoadFp16(block), m = LoadFp16(block + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(Low(block[4 + j])) * d + m;
    out[j + 16] = static_cast<float>(High(block[4 + j])) * d + m;
  }
}

// The fifth bit of element j is bit j of a 32-bit word.
int Fifth(uint32_t bits, int j) { return static_cast<int>(bits >> j & 1u) << 4; }

// d fp16, 32 fifth bits, 16 bytes.
void Q5_0(const std::byte* block, float* out) {
  const float d = LoadFp16(block);
  const uint32_t fifth = LoadU32(block + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>((Low(block[6 + j]) | Fifth(fifth, j)) - 16) * d;
    out[j + 16] = static_cast<float>((High(block[6 + j]) | Fifth(fifth, j + 16)) - 16) * d;
  }
}

// d fp16, m fp16, 32 fifth bits, 16 bytes.
void Q5_1(const std::byte* block, float* out) {
  const float d = LoadFp16(block), m = LoadFp16(block + 2);
  const uint32_t fifth = LoadU32(block + 4);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(Low(block[8 + j]) | Fifth(fifth, j)) * d + m;
    out[j + 16] = static_cast<float>(High(block[8 + j]) | Fifth(fifth, j + 16)) * d + m;
  }
}

// d fp16, 32 signed bytes.
void Q8_0(const std::byte* block, float* out) {
  const float d = LoadFp16(block);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(Signed(block[2 + j])) * d;
}

struct ScaleMin {
  float scale, min;
};

// The 6-bit scale and minimum of sub-block j of 8, packed into 12 bytes.
ScaleMin KScaleMin(const std::byte* packed, int j) {
  const auto at = [packed](int i) { return std::to_integer<int>(packed[i]); };
  if (j < 4) return {static_cast<float>(at(j) & 63), static_cast<float>(at(j + 4) & 63)};
  return {static_cast<float>((at(j + 4) & 15) | (at(j - 4) >> 6) << 4),
          static_cast<float>((at(j + 4) >> 4) | (at(j) >> 6) << 4)};
}

// 256 elements in 8 sub-blocks of 32: d fp16, dmin fp16, 12 bytes of scales, 128 bytes of two
// 4-bit numbers; 32 bytes hold sub-block 2i low and 2i + 1 high.
void Q4_K(const std::byte* block, float* out) {
  const float d = LoadFp16(block), dmin = LoadFp16(block + 2);
  for (int sub = 0; sub < 8; ++sub) {
    const auto [scale, min] = KScaleMin(block + 4, sub);
    const float sub_d = d * scale, sub_min = dmin * min;
    const std::byte* numbers = block + 16 + sub / 2 * 32;
    for (int l = 0; l < 32; ++l) {
      const int q = sub % 2 == 0 ? Low(numbers[l]) : High(numbers[l]);
      out[sub * 32 + l] = sub_d * static_cast<float>(q) - sub_min;
    }
  }
}

// As Q4_K, with 32 bytes of fifth bits after the scales: bit `sub` of byte l.
void Q5_K(const std::byte* block, float* out) {
  const float d = LoadFp16(block), dmin = LoadFp16(block + 2);
  for (int sub = 0; sub < 8; ++sub) {
    const auto [scale, min] = KScaleMin(block + 4, sub);
    const float sub_d = d * scale, sub_min = dmin * min;
    const std::byte* numbers = block + 48 + sub / 2 * 32;
    for (int l = 0; l < 32; ++l) {
      const int fifth = (std::to_integer<int>(block[16 + l]) >> sub & 1) << 4;
      const int q = (sub % 2 == 0 ? Low(numbers[l]) : High(numbers[l])) | fifth;
      out[sub * 32 + l] = sub_d * static_cast<float>(q) - sub_min;
    }
  }
}

// 256 elements in two halves of 128, each four quarters of 32 with two 8-bit scales: 128 bytes of
// lower 4 bits, 64 bytes of upper 2 bits, 16 signed scales, d fp16.
void Q6_K(const std::byte* block, float* out) {
  const float d = LoadFp16(block + 208);
  for (int half = 0; half < 2; ++half) {
    const std::byte *low = block + half * 64, *high = block + 128 + half * 32,
                    *scales = block + 192 + half * 8;
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int l = 0; l < 32; ++l) {
        const std::byte byte = low[l + quarter % 2 * 32];
        const int low4 = quarter < 2 ? Low(byte) : High(byte);
        const int high2 = std::to_integer<int>(high[l]) >> (2 * quarter) & 3;
        const float scale = static_cast<float>(Signed(scales[l / 16 + 2 * quarter]));
        out[half * 128 + quarter * 32 + l] =
            d * scale * static_cast<float>((low4 | high2 << 4) - 32);
      }
    }
  }
}

using BlockFunction = void (*)(const std::byte*, float*);

BlockFunction FunctionOf(StoredType type) {
  switch (type) {
    case StoredType::kQ4_0: return Q4_0;
    case StoredType::kQ4_1: return Q4_1;
    case StoredType::kQ5_0: return Q5_0;
    case StoredType::kQ5_1: return Q5_1;
    case StoredType::kQ8_0: return Q8_0;
    case StoredType::kQ4_K: return Q4_K;
    case StoredType::kQ5_K: return Q5_K;
    case StoredType::kQ6_K: return Q6_K;
    default: return nullptr;
  }
}

template <class Convert>
void Widen16(const std::byte* stored, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, stored + 2 * i, sizeof(bits));
    out[i] = convert(bits);
  }
}

}  // namespace

void Dequantize(StoredType type, Bytes stored, std::span<float> out) {
  KVBED_CHECK(type != StoredType::kGenerated);
  KVBED_CHECK(StoredBytes(type, out.size()) == stored.size());
  if (out.empty()) return;
  if (type == StoredType::kF32) {
    std::memcpy(out.data(), stored.data(), stored.size());
  } else if (type == StoredType::kF16) {
    Widen16(stored.data(), out, Fp16ToFloat);
  } else if (type == StoredType::kBf16) {
    Widen16(stored.data(), out, Bf16ToFloat);
  } else {
    const BlockFunction dequantize = FunctionOf(type);
    const StoredTypeInfo& info = InfoOf(type);
    const size_t blocks = out.size() / info.block_elements;
    for (size_t i = 0; i < blocks; ++i)
      dequantize(stored.data() + i * info.block_bytes, out.data() + i * info.block_elements);
  }
}

}  // namespace kvbed
