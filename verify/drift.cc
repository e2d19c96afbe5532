#include "verify/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace kvbed {
namespace {

// A dtype's bit patterns: sign and magnitude, like all of IEEE 754.
struct Bf16 {
  using Bits = uint16_t;
  static constexpr Bits kMagnitude = 0x7fff, kInfinity = 0x7f80;
  static float Value(Bits bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
};
struct Fp32 {
  using Bits = uint32_t;
  static constexpr Bits kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
  static float Value(Bits bits) { return std::bit_cast<float>(bits); }
};

// The place of a value among all values of its dtype in order; neighbours are 1 apart.
template <class T>
int64_t Order(typename T::Bits bits) {
  const int64_t magnitude = bits & T::kMagnitude;
  const int64_t sign = -int64_t{bits > T::kMagnitude};  // all ones for negative values
  return (magnitude ^ sign) - sign;
}

template <class T>
typename T::Bits LoadBits(Bytes bytes, size_t index) {
  typename T::Bits bits;
  std::memcpy(&bits, bytes.data() + index * sizeof(bits), sizeof(bits));
  return bits;
}

template <class T>
void CompareElements(Bytes cached, Bytes recomputed, DriftPart& part) {
  const size_t elements = cached.size() / sizeof(typename T::Bits);
  part.elements += elements;
  if (std::memcmp(cached.data(), recomputed.data(), cached.size()) == 0) {
    part.identical += elements;
    return;
  }
  // Without branches, and in locals: the loop sees millions of elements that nearly all differ.
  uint64_t identical = 0, non_finite = 0;
  float max_abs = 0;
  int64_t max_ulp = 0;
  for (size_t i = 0; i < elements; ++i) {
    const auto a = LoadBits<T>(cached, i), b = LoadBits<T>(recomputed, i);
    const bool finite = ((a & T::kMagnitude) < T::kInfinity) & ((b & T::kMagnitude) < T::kInfinity);
    identical += a == b;
    non_finite += !finite & (a != b);
    const float difference = std::fabs(T::Value(a) - T::Value(b));
    const int64_t distance = std::abs(Order<T>(a) - Order<T>(b));
    max_abs = std::max(max_abs, finite ? difference : 0.0f);
    max_ulp = std::max(max_ulp, finite ? distance : 0);
  }
  part.identical += identical;
  part.non_finite += non_finite;
  part.max_abs = std::max(part.max_abs, double{max_abs});
  part.max_ulp = std::max(part.max_ulp, static_cast<uint64_t>(max_ulp));
}

// The largest finite magnitude, as bits: their order is the values' order.
template <class T>
typename T::Bits MagnitudeMax(Bytes bytes, typename T::Bits so_far) {
  for (size_t i = 0; i < bytes.size() / sizeof(typename T::Bits); ++i) {
    const auto magnitude = static_cast<typename T::Bits>(LoadBits<T>(bytes, i) & T::kMagnitude);
    if (magnitude < T::kInfinity) so_far = std::max(so_far, magnitude);
  }
  return so_far;
}

// The first position of these rows, which begin at `first`, that differs and is below `so_far`;
// else `so_far`.
uint64_t FirstDifference(Bytes cached, Bytes recomputed, uint64_t row_bytes, uint64_t first,
                         uint64_t so_far) {
  for (uint64_t at = 0; at < cached.size() && first < so_far; at += row_bytes, ++first) {
    if (std::memcmp(cached.data() + at, recomputed.data() + at, row_bytes) != 0) return first;
  }
  return so_far;
}

// Rows [first, last) of one head of one part, as the pieces that lie in one block on both sides.
struct HeadRows {
  const KvView& cached;
  const KvView& recomputed;
  uint32_t layer;
  KvPart part;
  uint32_t head;

  template <class Visit>
  void ForEachPiece(uint64_t first, uint64_t last, const Visit& visit) const {
    while (first < last) {
      const uint64_t rows =
          std::min({RowsLeft(cached, first), RowsLeft(recomputed, first), last - first});
      visit(Rows(cached, first, rows), Rows(recomputed, first, rows), first);
      first += rows;
    }
  }

 private:
  static uint64_t RowsLeft(const KvView& kv, uint64_t token) {
    return kv.geometry.block_tokens - token % kv.geometry.block_tokens;
  }
  Bytes Rows(const KvView& kv, uint64_t token, uint64_t rows) const {
    const KvGeometry& g = kv.geometry;
    const auto row = static_cast<uint32_t>(token % g.block_tokens);
    return kv.payloads[token / g.block_tokens].subspan(g.ElementOffset({layer, part, head, row, 0}),
                                                       rows * g.head_dim * g.element_bytes());
  }
};

template <class T>
KvDrift Measure(const KvView& cached, const KvView& recomputed, uint64_t tokens, uint64_t prompt) {
  const KvGeometry& g = cached.geometry;
  KvDrift drift;
  typename T::Bits k_max = 0;
  const uint64_t row_bytes = g.head_dim * g.element_bytes();
  uint64_t first_position = tokens;
  for (uint32_t layer = 0; layer < g.layers; ++layer) {
    LayerDrift here;
    here.layer = layer;
    for (KvPart part : {KvPart::kK, KvPart::kV}) {
      const bool k = part == KvPart::kK;
      for (uint32_t head = 0; head < g.kv_heads; ++head) {
        const HeadRows rows{cached, recomputed, layer, part, head};
        const auto compare_into = [&](DriftPart& into) {
          return [&](Bytes a, Bytes b, uint64_t first) {
            CompareElements<T>(a, b, into);
            first_position = FirstDifference(a, b, row_bytes, first, first_position);
            if (k) k_max = MagnitudeMax<T>(a, k_max);
          };
        };
        rows.ForEachPiece(0, prompt, compare_into(k ? here.k_prompt : here.v_prompt));
        rows.ForEachPiece(prompt, tokens, compare_into(k ? here.k_decode : here.v_decode));
      }
    }
    const DriftPart k = here.k(), v = here.v();
    if (!drift.first_layer && (k.identical != k.elements || v.identical != v.elements)) {
      drift.first_layer = layer;
    }
    drift.layers.push_back(here);
  }
  drift.k_abs_max = T::Value(k_max);
  if (first_position < tokens) drift.first_position = first_position;
  return drift;
}

template <class Part>
DriftPart SumOver(const std::vector<LayerDrift>& layers, const Part& part_of) {
  DriftPart sum;
  for (const LayerDrift& layer : layers) sum.Add(part_of(layer));
  return sum;
}

DriftPart Sum(const DriftPart& a, const DriftPart& b) {
  DriftPart sum = a;
  sum.Add(b);
  return sum;
}

// The ids of the largest and the second largest logit; NaN counts as the smallest.
struct TopTwo {
  size_t first = 0;
  std::optional<size_t> second;
};

TopTwo FindTopTwo(std::span<const float> logits) {
  const auto value = [&](size_t id) {
    return std::isnan(logits[id]) ? -std::numeric_limits<float>::infinity() : logits[id];
  };
  TopTwo top;
  for (size_t id = 1; id < logits.size(); ++id) {
    if (value(id) > value(top.first)) {
      top.second = top.first;
      top.first = id;
    } else if (!top.second || value(id) > value(*top.second)) {
      top.second = id;
    }
  }
  return top;
}

}  // namespace

double DriftPart::identical_pct() const {
  if (elements == 0) return 100;
  return 100 * (static_cast<double>(identical) / static_cast<double>(elements));
}

void DriftPart::Add(const DriftPart& other) {
  elements += other.elements;
  identical += other.identical;
  max_abs = std::max(max_abs, other.max_abs);
  max_ulp = std::max(max_ulp, other.max_ulp);
  non_finite += other.non_finite;
}

DriftPart LayerDrift::k() const { return Sum(k_prompt, k_decode); }
DriftPart LayerDrift::v() const { return Sum(v_prompt, v_decode); }

DriftPart KvDrift::k() const {
  return SumOver(layers, [](const LayerDrift& layer) { return layer.k(); });
}
DriftPart KvDrift::v() const {
  return SumOver(layers, [](const LayerDrift& layer) { return layer.v(); });
}
DriftPart KvDrift::total() const { return Sum(k(), v()); }
DriftPart KvDrift::prompt() const {
  return SumOver(layers,
                 [](const LayerDrift& layer) { return Sum(layer.k_prompt, layer.v_prompt); });
}
DriftPart KvDrift::decode() const {
  return SumOver(layers,
                 [](const LayerDrift& layer) { return Sum(layer.k_decode, layer.v_decode); });
}

Result<KvDrift> MeasureKvDrift(const KvView& cached, const KvView& recomputed, uint64_t tokens,
                               uint64_t prompt_tokens) {
  KvGeometry same_blocks = recomputed.geometry;
  same_blocks.block_tokens = cached.geometry.block_tokens;
  if (same_blocks != cached.geometry) {
    return Status::InvalidArgument("drift needs two caches of one shape and dtype");
  }
  if (tokens > cached.tokens || tokens > recomputed.tokens || prompt_tokens > tokens) {
    return Status::InvalidArgument(
        fmt::format("drift over {} tokens, {} of them prompt, but the caches have {} and {}",
                    tokens, prompt_tokens, cached.tokens, recomputed.tokens));
  }
  return cached.geometry.dtype == DType::kBf16
             ? Measure<Bf16>(cached, recomputed, tokens, prompt_tokens)
             : Measure<Fp32>(cached, recomputed, tokens, prompt_tokens);
}

double DTypeStep(DType dtype, double value) {
  // bf16 and fp32 have the same exponents; the smallest normal one also serves what is below it.
  constexpr int kExponentMin = -126;
  const int mantissa_bits = dtype == DType::kBf16 ? 7 : 23;
  int exponent = kExponentMin;
  if (value != 0 && std::isfinite(value)) exponent = std::max(kExponentMin, std::ilogb(value));
  return std::ldexp(1.0, exponent - mantissa_bits);
}

std::optional<TokenFlip> FindFlip(uint64_t position, std::span<const float> cached,
                                  std::span<const float> recomputed, DType dtype) {
  KVBED_CHECK(!cached.empty() && cached.size() == recomputed.size());
  const size_t cached_id = FindTopTwo(cached).first;
  const TopTwo top = FindTopTwo(recomputed);
  if (cached_id == top.first) return std::nullopt;
  TokenFlip flip;
  flip.position = position;
  flip.cached_id = static_cast<int32_t>(cached_id);
  flip.cached_logit = cached[cached_id];
  flip.cached_logit_of_recomputed_id = cached[top.first];
  flip.recomputed_id = static_cast<int32_t>(top.first);
  flip.recomputed_logit = recomputed[top.first];
  flip.recomputed_logit_of_cached_id = recomputed[cached_id];
  const double largest = recomputed[top.first];
  const double second = recomputed[*top.second];
  if (std::isfinite(largest) && std::isfinite(second)) {
    flip.top2_gap = largest - second;
    flip.gap_steps = *flip.top2_gap / DTypeStep(dtype, largest);
  }
  return flip;
}

}  // namespace kvbed
