// Attention's products, with the rows of K and V where they lie in the pool's records: a part of
// them becomes floats in the caches, and nothing is packed. Each sum goes over k in ascending
// order, as in products-inl.h. Included once for each target by files that Highway compiles several
// times.
#if defined(KVBED_ENGINE_KERNELS_NATIVE_KV_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVBED_ENGINE_KERNELS_NATIVE_KV_PRODUCTS_INL_H_
#undef KVBED_ENGINE_KERNELS_NATIVE_KV_PRODUCTS_INL_H_
#else
#define KVBED_ENGINE_KERNELS_NATIVE_KV_PRODUCTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/kernels/native/kernel_table.h"
#include "engine/kernels/native/lanes-inl.h"
#include "engine/kernels/native/products-inl.h"

// The baseline of some compilers, which no table is made of.
#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace kvbed {
namespace HWY_NAMESPACE {

// Rows lie in short runs that are far apart, which is nothing that a CPU foresees: while a token is
// multiplied with, a row of what comes next is fetched.
template <class Element>
HWY_INLINE void FetchNext(const KvProduct& product, uint32_t token) {
  if (token >= product.next_tokens) return;
  const auto* const row = static_cast<const std::byte*>(product.next[token]);
  for (uint64_t at = 0; at < product.columns * sizeof(Element); at += 64) {
    __builtin_prefetch(row + at, 0, 2);  // to the second cache: the first has what is in use
  }
}

// Four words from `word` on of the rows 0, 4, 8 ...: as many rows as the vector has blocks.
template <uint32_t kWords>
HWY_INLINE hn::Vec<hn::FixedTag<uint32_t, kWords>> LoadBlocks(const uint32_t* const* rows,
                                                              uint32_t word) {
  const hn::FixedTag<uint32_t, kWords> words;
  if constexpr (kWords == 4) {
    return hn::LoadU(words, rows[0] + word);
  } else {
    return hn::Combine(words, LoadBlocks<kWords / 2>(rows + kWords / 2, word),
                       LoadBlocks<kWords / 2>(rows, word));
  }
}

// Four words from `word` on of kLanes rows to four vectors, lane i of row i.
struct FourWords {
  hn::Vec<hn::Rebind<uint32_t, Floats>> of[4];
};
HWY_INLINE FourWords Transpose(const uint32_t* const* rows, uint32_t word) {
  const hn::RepartitionToWide<hn::Rebind<uint32_t, Floats>> twice;
  const auto a = LoadBlocks<kLanes>(rows, word), b = LoadBlocks<kLanes>(rows + 1, word);
  const auto c = LoadBlocks<kLanes>(rows + 2, word), d = LoadBlocks<kLanes>(rows + 3, word);
  const auto ab_low = hn::BitCast(twice, hn::InterleaveLower(kPairs, a, b));
  const auto ab_high = hn::BitCast(twice, hn::InterleaveUpper(kPairs, a, b));
  const auto cd_low = hn::BitCast(twice, hn::InterleaveLower(kPairs, c, d));
  const auto cd_high = hn::BitCast(twice, hn::InterleaveUpper(kPairs, c, d));
  return {{hn::BitCast(kPairs, hn::InterleaveLower(twice, ab_low, cd_low)),
           hn::BitCast(kPairs, hn::InterleaveUpper(twice, ab_low, cd_low)),
           hn::BitCast(kPairs, hn::InterleaveLower(twice, ab_high, cd_high)),
           hn::BitCast(kPairs, hn::InterleaveUpper(twice, ab_high, cd_high))}};
}

// Columns [first, first + depth) of the kTileRows tokens from `token` on, to [depth][kTileRows].
template <class Element>
HWY_INLINE void KeysToFloats(const KvProduct& product, uint32_t token, uint32_t first,
                             uint32_t depth, float* to) {
  constexpr uint32_t kPerWord = sizeof(uint32_t) / sizeof(Element);
  const uint32_t* rows[kTileRows];
  for (uint32_t j = 0; j < kTileRows; ++j) {
    // Those behind the last give scores that nobody reads.
    rows[j] = static_cast<const uint32_t*>(product.rows[std::min(token + j, product.tokens - 1)]) +
              first / kPerWord;
    if (first == 0) FetchNext<Element>(product, token + j);
  }
  for (uint32_t word = 0; word < depth / kPerWord; word += 4) {
    for (uint32_t j = 0; j < kTileRows; j += kLanes) {
      const FourWords words = Transpose(rows + j, word);
      for (uint32_t i = 0; i < 4; ++i) {
        float* const line = to + (word + i) * kPerWord * kTileRows + j;
        if constexpr (kPerWord == 1) {
          hn::StoreU(hn::BitCast(kFloats, words.of[i]), kFloats, line);
        } else {
          hn::StoreU(FirstOfPairs(words.of[i]), kFloats, line);
          hn::StoreU(SecondOfPairs(words.of[i]), kFloats, line + kTileRows);
        }
      }
    }
  }
}

// Columns [column, column + kTileRows) of the tokens [first, first + depth), to [depth][kTileRows].
template <class Element>
HWY_INLINE void ValuesToFloats(const KvProduct& product, uint32_t column, uint32_t first,
                               uint32_t depth, float* to) {
  for (uint32_t k = 0; k < depth; ++k, to += kTileRows) {
    if (column == 0) FetchNext<Element>(product, first + k);
    const bool there = first + k < product.tokens;
    Store(there ? Load(static_cast<const Element*>(product.rows[first + k]) + column) : Fill(0),
          to);
  }
}

// A product over `depth` k whose outputs are `tiles` tiles. to_floats(tile, first, depth, to)
// writes a panel of one.
template <class Element, class ToFloats>
HWY_INLINE void SumTiles(const KvProduct& product, uint32_t depth, uint32_t tiles,
                         const ToFloats& to_floats) {
  uint32_t tile = 0;
  const auto sum = [&](auto count) HWY_ATTR {
    constexpr uint32_t kTiles = decltype(count)::value;
    const auto* a = static_cast<const Element*>(product.a);
    for (uint32_t line = 0; line < product.lines; line += kPanelLines) {
      const uint32_t lines = std::min(kPanelLines, product.lines - line);
      float sums[kPanelLines * kTiles * kTileRows];
      std::fill_n(sums, lines * kTiles * kTileRows, 0.0f);
      SumPanels<kTiles>(
          a + line * product.a_stride, product.a_stride, lines, depth,
          [&](uint32_t first, uint32_t panel, float* to) HWY_ATTR {
            for (uint32_t t = 0; t < kTiles; ++t) {
              to_floats(tile + t, first, panel, to + t * kPanelDepth * kTileRows);
            }
          },
          sums);
      for (uint32_t m = 0; m < lines; ++m) {
        std::copy_n(sums + m * kTiles * kTileRows, kTiles * kTileRows,
                    product.out + (line + m) * product.out_stride + tile * kTileRows);
      }
    }
    tile += kTiles;
  };
  while (tile + 2 <= tiles) sum(std::integral_constant<uint32_t, 2>());
  if (tile < tiles) sum(std::integral_constant<uint32_t, 1>());
}

template <class Element>
void ScoreKeys(const KvProduct& product) {
  SumTiles<Element>(product, product.columns, TilesFor(product.tokens),
                    [&](uint32_t tile, uint32_t first, uint32_t depth, float* to) HWY_ATTR {
                      KeysToFloats<Element>(product, tile * kTileRows, first, depth, to);
                    });
}

// V as tiles of columns, element by element where it lies.
template <class Element, bool kFetchNext>
struct ValueTiles {
  const KvProduct& product;
  uint32_t column;

  HWY_INLINE Vector operator()(uint32_t k, uint32_t j) const {
    if (kFetchNext && j == 0) FetchNext<Element>(product, k);
    return LoadVector(static_cast<const Element*>(product.rows[k]) + column + j * kLanes);
  }
};

// For few lines: V goes from memory into registers.
template <class Element>
HWY_INLINE void WeighValuesInPlace(const KvProduct& product) {
  float a[kDeepRows * kChunkTokens] = {};
  for (uint32_t i = 0; i < product.lines; ++i) {
    const auto* const from = static_cast<const Element*>(product.a) + i * product.a_stride;
    for (uint32_t k = 0; k < product.tokens; k += kTileRows) {
      Store(Load(from + k), a + i * kChunkTokens + k);
    }
  }
  constexpr uint32_t kTiles = 2;  // columns are whole pairs of them
  for (uint32_t column = 0; column < product.columns; column += kTiles * kTileRows) {
    float sums[kDeepRows * kTiles * kTileRows] = {};
    const auto add = [&](auto tiles) HWY_ATTR {
      AddRows<kTiles>(a, kChunkTokens, tiles, product.tokens, product.lines, sums);
    };
    if (column == 0) {
      add(ValueTiles<Element, true>{product, column});
    } else {
      add(ValueTiles<Element, false>{product, column});
    }
    for (uint32_t i = 0; i < product.lines; ++i) {
      for (uint32_t n = 0; n < kTiles * kTileRows; n += kTileRows) {
        // Zero times zero is added for each token of the padding: a negative zero becomes positive.
        const Lanes sum = Load(sums + i * kTiles * kTileRows + n);
        Store(product.tokens < Padded(product.tokens) ? Add(sum, Fill(0)) : sum,
              product.out + i * product.out_stride + column + n);
      }
    }
  }
}

template <class Element>
void WeighValues(const KvProduct& product) {
  if (product.lines <= kDeepRows) return WeighValuesInPlace<Element>(product);
  SumTiles<Element>(product, Padded(product.tokens), TilesFor(product.columns),
                    [&](uint32_t tile, uint32_t first, uint32_t depth, float* to) HWY_ATTR {
                      ValuesToFloats<Element>(product, tile * kTileRows, first, depth, to);
                    });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvbed
HWY_AFTER_NAMESPACE();
#endif

#endif
