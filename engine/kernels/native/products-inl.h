// Products of rows of elements with packed tiles, in registers and caches of the target. Each sum
// goes over k in ascending order, whatever is summed beside it, so that its bits are its row's
// alone. Included once for each target by files that Highway compiles several times.
#if defined(KVBED_ENGINE_KERNELS_NATIVE_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVBED_ENGINE_KERNELS_NATIVE_PRODUCTS_INL_H_
#undef KVBED_ENGINE_KERNELS_NATIVE_PRODUCTS_INL_H_
#else
#define KVBED_ENGINE_KERNELS_NATIVE_PRODUCTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/kernels/native/kernel_table.h"
#include "engine/kernels/native/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvbed {
namespace HWY_NAMESPACE {

// How much is summed at once is for the registers to decide: rows over two tiles, and tiles of one
// row.
inline constexpr uint32_t kDeepRows = kLanes == 16 ? 6 : kLanes == 8 ? 3 : 2;
inline constexpr uint32_t kFewRows = (kDeepRows + 1) / 2;  // of those that are left
inline constexpr uint32_t kWideTiles = kLanes >= 8 ? 4 : 2;

// A part of a product in the caches: all of its operands as floats.
inline constexpr uint32_t kPanelDepth = 128;
inline constexpr uint32_t kPanelLines = 96;

// Tiles of floats, `stride` apart, each [k][kTileRows].
struct FloatTiles {
  const float* tiles;
  uint64_t stride;

  // Of k, vector j over all tiles.
  HWY_INLINE Vector operator()(uint32_t k, uint32_t j) const {
    return hn::LoadU(
        kFloats, tiles + j / kVectors * stride + uint64_t{k} * kTileRows + j % kVectors * kLanes);
  }
};

// out[i][n] += sum of a[i][k] * b[k][n] for kRows rows of `a`, `a_stride` apart, over kTiles tiles.
// b(k, j): as FloatTiles gives it. out: kTiles * kTileRows floats a row.
template <uint32_t kRows, uint32_t kTiles, class Tiles>
HWY_INLINE void AddProducts(const float* a, uint64_t a_stride, const Tiles& b, uint32_t depth,
                            float* out) {
  constexpr uint32_t kSums = kTiles * kVectors;
  // Unrolled wherever they are touched, so that they are registers.
  Vector sums[kRows][kSums];
#pragma GCC unroll 16
  for (uint32_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (uint32_t j = 0; j < kSums; ++j) {
      sums[i][j] = hn::LoadU(kFloats, out + i * kTiles * kTileRows + j * kLanes);
    }
  }
  for (uint32_t k = 0; k < depth; ++k) {
#pragma GCC unroll 16
    for (uint32_t j = 0; j < kSums; ++j) {
      const Vector weights = b(k, j);
#pragma GCC unroll 16
      for (uint32_t i = 0; i < kRows; ++i) {
        sums[i][j] = hn::MulAdd(hn::Set(kFloats, a[i * a_stride + k]), weights, sums[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (uint32_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (uint32_t j = 0; j < kSums; ++j) {
      hn::StoreU(sums[i][j], kFloats, out + i * kTiles * kTileRows + j * kLanes);
    }
  }
}

// The same for any number of rows.
template <uint32_t kTiles, class Tiles>
void AddRows(const float* a, uint64_t a_stride, const Tiles& b, uint32_t depth, uint32_t rows,
             float* out) {
  uint32_t m = 0;
  const auto add = [&](auto count) HWY_ATTR {
    constexpr uint32_t kRows = decltype(count)::value;
    for (; m + kRows <= rows; m += kRows) {
      AddProducts<kRows, kTiles>(a + m * a_stride, a_stride, b, depth,
                                 out + m * kTiles * kTileRows);
    }
  };
  add(std::integral_constant<uint32_t, kDeepRows>());
  add(std::integral_constant<uint32_t, kFewRows>());
  add(std::integral_constant<uint32_t, 1>());
}

// Pairs of bf16, a word each: the first of a pair is the word's lower half.
inline constexpr hn::Rebind<uint32_t, Floats> kPairs;
HWY_INLINE Vector FirstOfPairs(hn::Vec<hn::Rebind<uint32_t, Floats>> pairs) {
  return hn::BitCast(kFloats, hn::ShiftLeft<16>(pairs));
}
HWY_INLINE Vector SecondOfPairs(hn::Vec<hn::Rebind<uint32_t, Floats>> pairs) {
  return hn::BitCast(kFloats, hn::And(pairs, hn::Set(kPairs, 0xffff0000u)));
}

// [pairs][kTileRows][2] to floats, [2 * pairs][kTileRows].
HWY_INLINE void TileToFloats(const uint16_t* from, uint32_t pairs, float* to) {
  const auto* in = reinterpret_cast<const uint32_t*>(from);
  for (uint32_t p = 0; p < pairs; ++p, in += kTileRows, to += 2 * kTileRows) {
    for (uint32_t i = 0; i < kTileRows; i += kLanes) {
      const auto pair = hn::LoadU(kPairs, in + i);
      hn::StoreU(FirstOfPairs(pair), kFloats, to + i);
      hn::StoreU(SecondOfPairs(pair), kFloats, to + kTileRows + i);
    }
  }
}

// sums += a * b over kTiles tiles, [rows][kTiles * kTileRows]: `rows` rows of `a`, at most
// kPanelLines. to_floats(first, depth, to) writes a panel of b, that of k in [first, first +
// depth): kTiles tiles of [kPanelDepth][kTileRows] floats.
template <uint32_t kTiles, class Element, class ToFloats>
HWY_INLINE void SumPanels(const Element* a, uint64_t a_stride, uint32_t rows, uint32_t columns,
                          const ToFloats& to_floats, float* sums) {
  float a_floats[kPanelLines * kPanelDepth];
  float b_floats[kTiles * kPanelDepth * kTileRows];
  for (uint32_t first = 0; first < columns; first += kPanelDepth) {
    const uint32_t depth = std::min(kPanelDepth, columns - first);
    for (uint32_t i = 0; i < rows; ++i) {
      for (uint32_t k = 0; k < depth; k += kTileRows) {
        Store(Load(a + i * a_stride + first + k), a_floats + i * kPanelDepth + k);
      }
    }
    to_floats(first, depth, b_floats);
    AddRows<kTiles>(a_floats, kPanelDepth, FloatTiles{b_floats, kPanelDepth * kTileRows}, depth,
                    rows, sums);
  }
}

// The sums of rows [row, row + rows) over kTiles packed tiles, [rows][kTiles * kTileRows]; `rows`
// is at most kPanelLines.
template <class Element, uint32_t kTiles>
HWY_INLINE void SumPanel(const Product& product, uint32_t row, uint32_t rows, uint32_t tile,
                         float* sums) {
  const auto* const a = static_cast<const Element*>(product.a) + row * product.a_stride;
  const uint64_t tile_elements = uint64_t{product.columns} * kTileRows;
  const auto* const b = static_cast<const Element*>(product.b) + tile * tile_elements;
  if constexpr (sizeof(Element) == sizeof(float)) {
    AddRows<kTiles>(a, product.a_stride, FloatTiles{b, tile_elements}, product.columns, rows, sums);
  } else {
    const auto to_floats = [&](uint32_t first, uint32_t depth, float* to) HWY_ATTR {
      for (uint32_t t = 0; t < kTiles; ++t) {
        TileToFloats(b + t * tile_elements + uint64_t{first} * kTileRows, depth / 2,
                     to + t * kPanelDepth * kTileRows);
      }
    };
    SumPanels<kTiles>(a, product.a_stride, rows, product.columns, to_floats, sums);
  }
}

// The sums of one row over kWideTiles tiles, straight from memory: each number of `b` is used once.
template <class Element>
HWY_INLINE void SumRow(const Product& product, uint32_t tile, float* sums) {
  const auto* const a = static_cast<const Element*>(product.a);
  const uint64_t tile_elements = uint64_t{product.columns} * kTileRows;
  const auto* const tiles = static_cast<const Element*>(product.b) + tile * tile_elements;
  if constexpr (sizeof(Element) == sizeof(float)) {
    AddProducts<1, kWideTiles>(a, product.a_stride, FloatTiles{tiles, tile_elements},
                               product.columns, sums);
  } else {
    constexpr uint32_t kSums = kWideTiles * kVectors;
    const uint64_t tile_words = tile_elements / 2;
    const auto* b = reinterpret_cast<const uint32_t*>(tiles);
    Vector all[kSums];
#pragma GCC unroll 16
    for (Vector& sum : all) sum = hn::Zero(kFloats);
    for (uint32_t k = 0; k < product.columns; k += 2, b += kTileRows) {
      const auto pair = hn::Set(kPairs, uint32_t{a[k + 1]} << 16 | a[k]);
      const Vector first = FirstOfPairs(pair), second = SecondOfPairs(pair);
#pragma GCC unroll 16
      for (uint32_t j = 0; j < kSums; ++j) {
        const auto pairs = hn::LoadU(kPairs, b + j / kVectors * tile_words + j % kVectors * kLanes);
        all[j] = hn::MulAdd(first, FirstOfPairs(pairs), all[j]);
        all[j] = hn::MulAdd(second, SecondOfPairs(pairs), all[j]);
      }
    }
#pragma GCC unroll 16
    for (uint32_t j = 0; j < kSums; ++j) hn::StoreU(all[j], kFloats, sums + j * kLanes);
  }
}

template <class Element>
void PutSums(const Product& product, uint32_t row, uint32_t rows, uint32_t tile, uint32_t tiles,
             const float* sums) {
  const uint32_t step = product.into == Into::kGated ? 2 : 1;
  for (uint32_t m = 0; m < rows; ++m, sums += tiles * kTileRows) {
    for (uint32_t t = 0; t < tiles; t += step) {
      const Lanes up = t + 1 < tiles ? Load(sums + (t + 1) * kTileRows) : Fill(0);
      Put<Element>(product, row + m, tile + t, Load(sums + t * kTileRows), &up);
    }
  }
}

template <class Element>
void Multiply(const KernelTable&, const Product& product) {
  const uint32_t end = product.tile + product.tiles;
  uint32_t tile = product.tile;
  if (product.rows == 1) {
    for (; tile + kWideTiles <= end; tile += kWideTiles) {
      float sums[kWideTiles * kTileRows] = {};
      SumRow<Element>(product, tile, sums);
      PutSums<Element>(product, 0, 1, tile, kWideTiles, sums);
    }
  }
  const auto panels = [&](auto tiles) {
    constexpr uint32_t kTiles = decltype(tiles)::value;
    for (uint32_t row = 0; row < product.rows; row += kPanelLines) {
      const uint32_t rows = std::min(kPanelLines, product.rows - row);
      float sums[kPanelLines * kTiles * kTileRows];
      std::fill_n(sums, rows * kTiles * kTileRows, 0.0f);
      SumPanel<Element, kTiles>(product, row, rows, tile, sums);
      PutSums<Element>(product, row, rows, tile, kTiles, sums);
    }
    tile += kTiles;
  };
  while (tile + 2 <= end) panels(std::integral_constant<uint32_t, 2>());
  if (tile < end) panels(std::integral_constant<uint32_t, 1>());
}

}  // namespace HWY_NAMESPACE
}  // namespace kvbed
HWY_AFTER_NAMESPACE();

#endif
