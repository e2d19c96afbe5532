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

#include "engine/kernels/native/kv_products-inl.h"
#include "engine/kernels/native/lanes-inl.h"
#include "engine/kernels/native/products-inl.h"

// The baseline of some compilers, which no table is made of.
#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace kvbed {
namespace HWY_NAMESPACE {
namespace {

// Four words of each of four rows to four rows of four words.
HWY_INLINE void Transpose4(const uint32_t* const rows[4], uint32_t word, uint32_t* out) {
  const hn::FixedTag<uint32_t, 4> four;
  const hn::FixedTag<uint64_t, 2> two;
  const auto load = [&](uint32_t j) HWY_ATTR { return hn::LoadU(four, rows[j] + word); };
  const auto a = load(0), b = load(1), c = load(2), d = load(3);
  const auto ab_low = hn::BitCast(two, hn::InterleaveLower(four, a, b));
  const auto ab_high = hn::BitCast(two, hn::InterleaveUpper(four, a, b));
  const auto cd_low = hn::BitCast(two, hn::InterleaveLower(four, c, d));
  const auto cd_high = hn::BitCast(two, hn::InterleaveUpper(four, c, d));
  const auto store = [&](uint32_t i, auto line) HWY_ATTR {
    hn::StoreU(hn::BitCast(four, line), four, out + i * kTileRows);
  };
  store(0, hn::InterleaveLower(two, ab_low, cd_low));
  store(1, hn::InterleaveUpper(two, ab_low, cd_low));
  store(2, hn::InterleaveLower(two, ab_high, cd_high));
  store(3, hn::InterleaveUpper(two, ab_high, cd_high));
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
    const auto row = [&](uint32_t j) { return static_cast<const uint32_t*>(rows[first + j]); };
    const uint32_t by_four = count / 4 * 4, words_by_four = words_there / 4 * 4;
    for (uint32_t j = 0; j < by_four; j += 4) {
      const uint32_t* const four[4] = {row(j), row(j + 1), row(j + 2), row(j + 3)};
      for (uint32_t w = 0; w < words_by_four; w += 4) Transpose4(four, w, out + w * kTileRows + j);
    }
    for (uint32_t j = 0; j < count; ++j) {
      const uint32_t done = j < by_four ? words_by_four : 0;
      for (uint32_t w = done; w < words_there; ++w) out[w * kTileRows + j] = row(j)[w];
    }
  }
}

// Sixteen elements of two tokens side by side, by pairs.
HWY_INLINE void PairUp(const uint16_t* first, const uint16_t* second, uint16_t* out) {
  const hn::FixedTag<uint16_t, 8> eight;
  for (uint32_t j = 0; j < kTileRows; j += 8, out += 16) {
    const auto a = hn::LoadU(eight, first + j), b = hn::LoadU(eight, second + j);
    hn::StoreU(hn::InterleaveLower(eight, a, b), eight, out);
    hn::StoreU(hn::InterleaveUpper(eight, a, b), eight, out + 8);
  }
}

template <class Element>
void PackValues(const void* const* rows, uint32_t tokens, uint32_t columns, void* packed) {
  const uint32_t depth = Padded(tokens), tiles = TilesFor(columns);
  constexpr uint32_t kGroup = sizeof(Element) == sizeof(float) ? 1 : 2;  // of k, side by side
  constexpr Element kZeroes[kTileRows] = {};
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    Element* out = static_cast<Element*>(packed) + uint64_t{tile} * depth * kTileRows;
    const uint32_t count = std::min(kTileRows, columns - tile * kTileRows);
    Element copies[kGroup][kTileRows] = {};  // of a tile that columns don't fill
    const auto line = [&](uint32_t k, Element* copy) -> const Element* {
      if (k >= tokens) return kZeroes;
      const auto* const row = static_cast<const Element*>(rows[k]) + tile * kTileRows;
      if (count == kTileRows) return row;
      std::memcpy(copy, row, count * sizeof(Element));
      return copy;
    };
    for (uint32_t k = 0; k < depth; k += kGroup, out += kGroup * kTileRows) {
      if constexpr (kGroup == 1) {
        std::memcpy(out, line(k, copies[0]), kTileRows * sizeof(Element));
      } else {
        PairUp(line(k, copies[0]), line(k + 1, copies[1]), out);
      }
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
          .score_keys = ScoreKeys<Element>,
          .weigh_values = WeighValues<Element>,
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
#endif

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
