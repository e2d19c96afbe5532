// The native kernels for every instruction set that has fused multiply-add, through Highway. All
// targets give the same bits: sums run over 16 lanes whatever a vector holds, and in one order.
#include <hwy/detect_targets.h>

// Scalable vectors can't stand in arrays; older sets don't fuse, but the baseline must be there.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/native/portable_kernels.cc"
#include <hwy/foreach_target.h>
// After the line above.
#include <cmath>
#include <cstring>

#include "engine/kernels/native/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvbed {
namespace HWY_NAMESPACE {
namespace {

// Sums of kRows rows of `a` over kTiles tiles of `b`, put away by Put. Unrolled, so that the sums
// are registers.
template <class Element, uint32_t kRows, uint32_t kTiles>
void MultiplyBlock(const Product& product, uint32_t m, uint32_t tile) {
  constexpr uint32_t kSums = kTiles * kVectors;
  Vector sums[kRows][kSums];
#pragma GCC unroll 16
  for (uint32_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (uint32_t j = 0; j < kSums; ++j) sums[i][j] = hn::Zero(kFloats);
  }
  const Element* const a = static_cast<const Element*>(product.a) + m * product.a_stride;
  const uint64_t tile_elements = uint64_t{product.columns} * kTileRows;
  const Element* const b = static_cast<const Element*>(product.b) + tile * tile_elements;
  const auto add = [&](uint32_t k, uint32_t j, Vector weights) HWY_ATTR {
#pragma GCC unroll 16
    for (uint32_t i = 0; i < kRows; ++i) {
      float value = 0;
      if constexpr (sizeof(Element) == sizeof(float)) {
        value = a[i * product.a_stride + k];
      } else {
        const uint32_t bits = uint32_t{a[i * product.a_stride + k]} << 16;
        std::memcpy(&value, &bits, sizeof(value));
      }
      sums[i][j] = hn::MulAdd(hn::Set(kFloats, value), weights, sums[i][j]);
    }
  };
  if constexpr (sizeof(Element) == sizeof(float)) {
    for (uint32_t k = 0; k < product.columns; ++k) {
#pragma GCC unroll 16
      for (uint32_t j = 0; j < kSums; ++j) {
        const uint64_t at = j / kVectors * tile_elements + uint64_t{k} * kTileRows;
        add(k, j, hn::LoadU(kFloats, b + at + j % kVectors * kLanes));
      }
    }
  } else {
    const hn::Rebind<uint32_t, Floats> words;
    for (uint32_t k = 0; k < product.columns; k += 2) {
#pragma GCC unroll 16
      for (uint32_t j = 0; j < kSums; ++j) {
        const uint64_t at = j / kVectors * tile_elements + uint64_t{k} * kTileRows;
        const auto pair =
            hn::LoadU(words, reinterpret_cast<const uint32_t*>(b + at + j % kVectors * kLanes * 2));
        add(k, j, hn::BitCast(kFloats, hn::ShiftLeft<16>(pair)));
        add(k + 1, j, hn::BitCast(kFloats, hn::And(pair, hn::Set(words, 0xffff0000u))));
      }
    }
  }
  const uint32_t step = product.into == Into::kGated ? 2 : 1;
#pragma GCC unroll 16
  for (uint32_t i = 0; i < kRows; ++i) {
    Lanes lanes[kTiles];
#pragma GCC unroll 16
    for (uint32_t j = 0; j < kSums; ++j) lanes[j / kVectors].v[j % kVectors] = sums[i][j];
    for (uint32_t t = 0; t < kTiles; t += step) {
      Put<Element>(product, m + i, tile + t, lanes[t], t + 1 < kTiles ? &lanes[t + 1] : nullptr);
    }
  }
}

// Registers decide how much is summed at once; what a row's sums are doesn't depend on it.
template <class Element>
void Multiply(const KernelTable&, const Product& product) {
  constexpr uint32_t kWide = kLanes == 16 ? 4 : 2;                    // tiles of one row
  constexpr uint32_t kDeep = kLanes == 16 ? 6 : kLanes == 8 ? 3 : 2;  // rows over two tiles
  const uint32_t end = product.tile + product.tiles;
  uint32_t tile = product.tile;
  if (product.rows == 1) {
    for (; tile + kWide <= end; tile += kWide) MultiplyBlock<Element, 1, kWide>(product, 0, tile);
  }
  for (; tile + 2 <= end; tile += 2) {
    uint32_t m = 0;
    for (; m + kDeep <= product.rows; m += kDeep)
      MultiplyBlock<Element, kDeep, 2>(product, m, tile);
    for (; m < product.rows; ++m) MultiplyBlock<Element, 1, 2>(product, m, tile);
  }
  if (tile == end) return;
  for (uint32_t m = 0; m < product.rows; ++m) MultiplyBlock<Element, 1, 1>(product, m, tile);
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
void PackKeys(const void* const* rows, uint32_t tokens, uint32_t columns, void* packed) {
  // A pair of bf16 is moved as one word, as a float is.
  constexpr uint32_t kPerWord = sizeof(uint32_t) / sizeof(Element);
  const uint32_t words = Padded(columns) / kPerWord, words_there = columns / kPerWord;
  auto* out = static_cast<uint32_t*>(packed);
  for (uint32_t first = 0; first < tokens; first += kTileRows, out += words * kTileRows) {
    const uint32_t count = std::min(kTileRows, tokens - first);
    if (count < kTileRows || words_there < words) {
      std::memset(out, 0, uint64_t{words} * kTileRows * sizeof(uint32_t));
    }
    for (uint32_t j = 0; j < count; ++j) {
      const auto* const row = static_cast<const uint32_t*>(rows[first + j]);
      for (uint32_t w = 0; w < words_there; ++w) out[w * kTileRows + j] = row[w];
    }
  }
}

template <class Element>
void PackValues(const void* const* rows, uint32_t tokens, uint32_t columns, void* packed) {
  const uint32_t depth = Padded(tokens), tiles = TilesFor(columns);
  auto* const out = static_cast<Element*>(packed);
  if (tokens < depth || columns % kTileRows != 0) {
    std::memset(packed, 0, uint64_t{tiles} * depth * kTileRows * sizeof(Element));
  }
  constexpr uint32_t kGroup = sizeof(Element) == sizeof(float) ? 1 : 2;  // of k, side by side
  for (uint32_t k = 0; k < tokens; ++k) {
    const auto* const row = static_cast<const Element*>(rows[k]);
    for (uint32_t tile = 0; tile < tiles; ++tile) {
      Element* const to =
          out + (uint64_t{tile} * depth + k / kGroup * kGroup) * kTileRows + k % kGroup;
      const uint32_t count = std::min(kTileRows, columns - tile * kTileRows);
      for (uint32_t j = 0; j < count; ++j) to[j * kGroup] = row[tile * kTileRows + j];
    }
  }
}

template <class Element>
ChunkSums Softmax(const float* scores, uint32_t tokens, uint32_t tokens_padded, float scale,
                  void* weights) {
  constexpr float kNone = -3.0e38f;
  float scaled[kChunkTokens];
  const Lanes factor = Fill(scale);
  Lanes highest = Fill(kNone);
  for (uint32_t j = 0; j < tokens; j += kTileRows) {
    Store(Mul(Load(scores + j), factor), scaled + j);
    for (uint32_t past = tokens; past < j + kTileRows; ++past) scaled[past] = kNone;
    highest = MaxOf(highest, Load(scaled + j));
  }
  ChunkSums sums;
  sums.max = MaxLaneOf(highest);
  auto* const out = static_cast<Element*>(weights);
  Lanes total = Fill(0);
  for (uint32_t j = 0; j < tokens; j += kTileRows) {
    float lanes[kTileRows];
    Store(RoundTo<Element>(Exp(Sub(Load(scaled + j), Fill(sums.max)))), lanes);
    for (uint32_t past = tokens; past < j + kTileRows; ++past) lanes[past - j] = 0;
    const Lanes weight = Load(lanes);
    StoreRounded(weight, out + j);
    total = Add(total, weight);
  }
  const uint32_t written = TilesFor(tokens) * kTileRows;
  if (written < tokens_padded) {
    std::memset(out + written, 0, (tokens_padded - written) * sizeof(Element));
  }
  sums.sum = SumOf(total);
  return sums;
}

void Merge(ChunkSums& state, float* acc, const ChunkSums& chunk, const float* chunk_acc,
           uint32_t columns) {
  const float max = chunk.max > state.max ? chunk.max : state.max;
  const float keep = Exp(state.max - max), take = Exp(chunk.max - max);
  for (uint32_t i = 0; i < columns; i += kTileRows) {
    Store(MulAdd(Load(chunk_acc + i), Fill(take), Mul(Load(acc + i), Fill(keep))), acc + i);
  }
  state = {.max = max, .sum = chunk.sum * take + state.sum * keep};
}

template <class Element>
void Divide(const float* acc, float sum, uint32_t columns, void* out) {
  for (uint32_t i = 0; i < columns; i += kTileRows) {
    StoreElements(Div(Load(acc + i), Fill(sum)), static_cast<Element*>(out) + i);
  }
}

template <class Element>
void RmsNorm(const void* x, const void* weight, uint32_t columns, float eps, void* out) {
  const auto* const from = static_cast<const Element*>(x);
  const auto* const scale = static_cast<const Element*>(weight);
  Lanes squares = Fill(0);
  for (uint32_t i = 0; i < columns; i += kTileRows) {
    const Lanes value = Load(from + i);
    squares = MulAdd(value, value, squares);
  }
  const float mean = SumOf(squares) / static_cast<float>(columns);
  const Lanes factor = Fill(1.0f / std::sqrt(mean + eps));
  for (uint32_t i = 0; i < columns; i += kTileRows) {
    const Lanes normed = RoundTo<Element>(Mul(Load(from + i), factor));
    StoreElements(Mul(normed, Load(scale + i)), static_cast<Element*>(out) + i);
  }
}

// The pairs from d on, sixteen at a time or what there is.
template <class Element>
void Rotate(void* x, const float* cos, const float* sin, uint32_t half) {
  auto* const first = static_cast<Element*>(x);
  for (uint32_t d = 0; d < half; d += kTileRows) {
    const uint32_t count = std::min(kTileRows, half - d);
    Element low[kTileRows] = {}, high[kTileRows] = {};
    float c[kTileRows] = {}, s[kTileRows] = {};
    std::memcpy(low, first + d, count * sizeof(Element));
    std::memcpy(high, first + half + d, count * sizeof(Element));
    std::memcpy(c, cos + d, count * sizeof(float));
    std::memcpy(s, sin + d, count * sizeof(float));
    const Lanes a = Load(low), b = Load(high), by_cos = Load(c), by_sin = Load(s);
    const auto product = [](const Lanes& p, const Lanes& q)
                             HWY_ATTR { return RoundTo<Element>(Mul(p, q)); };
    StoreElements(Sub(product(a, by_cos), product(b, by_sin)), low);
    StoreElements(Add(product(b, by_cos), product(a, by_sin)), high);
    std::memcpy(first + d, low, count * sizeof(Element));
    std::memcpy(first + half + d, high, count * sizeof(Element));
  }
}

template <class Element>
KernelTable MakeTable(const char* name, DType dtype) {
  return {.name = name,
          .arithmetic = "portable",
          .dtype = dtype,
          .multiply = Multiply<Element>,
          .put = PutSums<Element>,
          .pack_keys = PackKeys<Element>,
          .pack_values = PackValues<Element>,
          .softmax = Softmax<Element>,
          .merge = Merge,
          .divide = Divide<Element>,
          .rms_norm = RmsNorm<Element>,
          .rotate = Rotate<Element>};
}

}  // namespace

KernelTable PortableTable(const char* name, DType dtype) {
  return dtype == DType::kBf16 ? MakeTable<uint16_t>(name, dtype) : MakeTable<float>(name, dtype);
}

}  // namespace HWY_NAMESPACE
}  // namespace kvbed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/kernels/native/portable_kernels.h"

namespace kvbed {

std::vector<KernelTable> PortableTables(DType dtype) {
  std::vector<KernelTable> tables;
  const int64_t here = hwy::SupportedTargets();
#if HWY_TARGETS & HWY_AVX3
  if (here & HWY_AVX3) tables.push_back(N_AVX3::PortableTable("avx512", dtype));
#endif
#if HWY_TARGETS & HWY_AVX2
  if (here & HWY_AVX2) tables.push_back(N_AVX2::PortableTable("avx2", dtype));
#endif
#if HWY_TARGETS & HWY_NEON
  if (here & HWY_NEON) tables.push_back(N_NEON::PortableTable("neon", dtype));
#endif
  static_cast<void>(here);
  return tables;
}

}  // namespace kvbed
#endif
