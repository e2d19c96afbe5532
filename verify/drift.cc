#include "verify/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/element_bits.h"

namespace kvbed {
namespace {

// The first of the rows that differs, or as many as there are.
uint64_t FirstDifferingRow(Bytes cached, Bytes recomputed, uint64_t row_bytes) {
  const auto differs = std::mismatch(cached.begin(), cached.end(), recomputed.begin()).first;
  return static_cast<uint64_t>(differs - cached.begin()) / row_bytes;
}

// The smaller of what was found so far and `position`.
void TakeFirst(std::optional<uint64_t>& first, uint64_t position) {
  first = std::min(first.value_or(position), position);
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
      visit(first, Rows(cached, first, rows), Rows(recomputed, first, rows));
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
  const uint64_t row_bytes = g.head_dim * g.element_bytes();
  KvDrift drift;
  std::optional<uint64_t> first_prompt;
  typename T::Bits k_max = 0;
  for (uint32_t layer = 0; layer < g.layers; ++layer) {
    LayerDrift here;
    here.layer = layer;
    for (KvPart part : {KvPart::kK, KvPart::kV}) {
      const bool k = part == KvPart::kK;
      for (uint32_t head = 0; head < g.kv_heads; ++head) {
        const HeadRows rows{cached, recomputed, layer, part, head};
        const auto compare_into = [&](DriftPart& into, std::optional<uint64_t>& first) {
          return [&](uint64_t token, Bytes a, Bytes b) {
            const uint64_t identical = into.identical, elements = into.elements;
            CompareElements<T>(a, b, into);
            if (k) k_max = MagnitudeMax<T>(a, k_max);
            if (into.elements - elements == into.identical - identical) return;
            TakeFirst(first, token + FirstDifferingRow(a, b, row_bytes));
          };
        };
        rows.ForEachPiece(0, prompt, compare_into(k ? here.k_prompt : here.v_prompt, first_prompt));
        rows.ForEachPiece(
            prompt, tokens,
            compare_into(k ? here.k_decode : here.v_decode, drift.first_decode_position));
      }
    }
    const DriftPart k = here.k(), v = here.v();
    if (!drift.first_layer && (k.identical != k.elements || v.identical != v.elements)) {
      drift.first_layer = layer;
    }
    drift.layers.push_back(here);
  }
  drift.first_position = first_prompt ? first_prompt : drift.first_decode_position;
  drift.k_abs_max = T::Value(k_max);
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

double DriftPart::differing_pct() const {
  if (elements == 0) return 0;
  return 100 * (static_cast<double>(elements - identical) / static_cast<double>(elements));
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
             ? Measure<Bf16Bits>(cached, recomputed, tokens, prompt_tokens)
             : Measure<Fp32Bits>(cached, recomputed, tokens, prompt_tokens);
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
