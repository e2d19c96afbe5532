// Compiled with AVX-512 BF16 enabled; nothing here runs before the CPU was asked. VDPBF16PS adds
// the products of a pair of bf16 to a float, denormals taken for zero: other bits than fused
// multiply-adds give, hence an arithmetic of its own.
#include "engine/kernels/native/avx512_bf16_kernels.h"

#include <immintrin.h>

#include <cstring>

namespace kvbed {
namespace {

using PutFunction = decltype(KernelTable::put);

__m512bh LoadPairs(const uint16_t* from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}

__m512bh FillPair(const uint16_t* pair) {
  int32_t word = 0;
  std::memcpy(&word, pair, sizeof(word));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(word));
}

// Sums of kRows rows over kTiles tiles: a chain of dot products for each, pair after pair.
// Unrolled, so that the sums are registers.
template <uint32_t kRows, uint32_t kTiles>
void MultiplyPairs(const Product& product, uint32_t row, uint32_t tile, PutFunction put) {
  const uint16_t* const a = static_cast<const uint16_t*>(product.a) + row * product.a_stride;
  const uint64_t tile_elements = uint64_t{product.columns} * kTileRows;
  const uint16_t* const b = static_cast<const uint16_t*>(product.b) + tile * tile_elements;
  __m512 sums[kRows][kTiles];
#pragma GCC unroll 8
  for (auto& of_row : sums) {
#pragma GCC unroll 8
    for (__m512& sum : of_row) sum = _mm512_setzero_ps();
  }
  for (uint32_t k = 0; k < product.columns; k += 2) {
    __m512bh weights[kTiles];
#pragma GCC unroll 8
    for (uint32_t t = 0; t < kTiles; ++t) {
      weights[t] = LoadPairs(b + t * tile_elements + uint64_t{k} * kTileRows);
    }
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kRows; ++i) {
      const __m512bh values = FillPair(a + i * product.a_stride + k);
#pragma GCC unroll 8
      for (uint32_t t = 0; t < kTiles; ++t) {
        sums[i][t] = _mm512_dpbf16_ps(sums[i][t], weights[t], values);
      }
    }
  }
  alignas(64) float stored[kRows][kTiles * kTileRows];
#pragma GCC unroll 8
  for (uint32_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (uint32_t t = 0; t < kTiles; ++t) {
      _mm512_store_ps(stored[i] + t * kTileRows, sums[i][t]);
    }
  }
  put(product, row, kRows, tile, kTiles, stored[0]);
}

template <uint32_t kTiles>
void MultiplyTiles(const Product& product, uint32_t tile, PutFunction put) {
  constexpr uint32_t kDeep = 6;  // 24 of 32 registers hold sums
  uint32_t row = 0;
  for (; row + kDeep <= product.rows; row += kDeep) {
    MultiplyPairs<kDeep, kTiles>(product, row, tile, put);
  }
  for (; row + 3 <= product.rows; row += 3) MultiplyPairs<3, kTiles>(product, row, tile, put);
  for (; row < product.rows; ++row) MultiplyPairs<1, kTiles>(product, row, tile, put);
}

// Row i of the result is column i of `rows`, words of 32 bits.
void Transpose(__m512i rows[16]) {
  __m512i pairs[16], fours[16];
  for (int i = 0; i < 8; ++i) {
    pairs[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    pairs[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i* const p = pairs + 4 * i;
    fours[4 * i] = _mm512_unpacklo_epi64(p[0], p[2]);
    fours[4 * i + 1] = _mm512_unpackhi_epi64(p[0], p[2]);
    fours[4 * i + 2] = _mm512_unpacklo_epi64(p[1], p[3]);
    fours[4 * i + 3] = _mm512_unpackhi_epi64(p[1], p[3]);
  }
  // fours[4 * i + j] holds in its 128-bit part q column 4 * q + j of rows 4 * i to 4 * i + 3.
  for (int j = 0; j < 4; ++j) {
    const __m512i low01 = _mm512_shuffle_i32x4(fours[j], fours[4 + j], 0x44);
    const __m512i high01 = _mm512_shuffle_i32x4(fours[j], fours[4 + j], 0xee);
    const __m512i low23 = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], 0x44);
    const __m512i high23 = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], 0xee);
    rows[j] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    rows[4 + j] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    rows[8 + j] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    rows[12 + j] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  }
}

// The first `count` of sixteen.
__mmask16 FirstOf(uint32_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : (1u << count) - 1);
}

void PackKeyPairs(const void* const* rows, uint32_t tokens, uint32_t columns, void* packed) {
  const uint32_t words = Padded(columns) / 2, words_there = columns / 2;
  auto* out = static_cast<uint32_t*>(packed);
  for (uint32_t first = 0; first < tokens; first += kTileRows) {
    for (uint32_t word = 0; word < words; word += 16, out += 16 * kTileRows) {
      const __mmask16 there = FirstOf(words_there > word ? words_there - word : 0);
      __m512i lines[16];
      for (uint32_t j = 0; j < kTileRows; ++j) {
        lines[j] = first + j < tokens
                       ? _mm512_maskz_loadu_epi32(
                             there, static_cast<const uint32_t*>(rows[first + j]) + word)
                       : _mm512_setzero_si512();
      }
      Transpose(lines);
      for (uint32_t j = 0; j < kTileRows; ++j) _mm512_storeu_si512(out + j * kTileRows, lines[j]);
    }
  }
}

void PackValuePairs(const void* const* rows, uint32_t tokens, uint32_t columns, void* packed) {
  const uint32_t depth = Padded(tokens), tiles = TilesFor(columns);
  auto* const out = static_cast<uint16_t*>(packed);
  for (uint32_t k = 0; k < depth; k += 2) {
    for (uint32_t tile = 0; tile < tiles; ++tile) {
      const __mmask16 there = FirstOf(columns - tile * kTileRows);
      const auto line = [&](uint32_t token) {
        if (token >= tokens) return _mm512_setzero_si512();
        const auto* const row = static_cast<const uint16_t*>(rows[token]) + tile * kTileRows;
        return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, row));
      };
      const __m512i pair = _mm512_or_si512(line(k), _mm512_slli_epi32(line(k + 1), 16));
      _mm512_storeu_si512(out + (uint64_t{tile} * depth + k) * kTileRows, pair);
    }
  }
}

void Multiply(const KernelTable& table, const Product& product) {
  const uint32_t end = product.tile + product.tiles;
  uint32_t tile = product.tile;
  for (; tile + 4 <= end; tile += 4) MultiplyTiles<4>(product, tile, table.put);
  for (; tile + 2 <= end; tile += 2) MultiplyTiles<2>(product, tile, table.put);
  if (tile < end) MultiplyTiles<1>(product, tile, table.put);
}

}  // namespace

KernelTable Avx512Bf16Table(const KernelTable& base) {
  KernelTable table = base;
  table.name = table.arithmetic = "avx512_bf16";
  table.multiply = Multiply;
  table.pack_keys = PackKeyPairs;
  table.pack_values = PackValuePairs;
  table.score_keys = table.weigh_values = nullptr;  // pairs are summed as one
  return table;
}

}  // namespace kvbed
