// Sixteen floats as one value, whatever the vectors of the target are, and elements to floats and
// back: what makes the portable kernels give the same bits on every instruction set. Included once
// for each target by files that Highway compiles several times.
#if defined(KVBED_ENGINE_KERNELS_NATIVE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVBED_ENGINE_KERNELS_NATIVE_LANES_INL_H_
#undef KVBED_ENGINE_KERNELS_NATIVE_LANES_INL_H_
#else
#define KVBED_ENGINE_KERNELS_NATIVE_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "engine/kernels/native/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace kvbed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kTileRows>;
using Vector = hn::Vec<Floats>;
inline constexpr Floats kFloats;
inline constexpr uint32_t kLanes = hn::MaxLanes(Floats());
inline constexpr uint32_t kVectors = kTileRows / kLanes;

// kTileRows floats; vector i holds those from i * kLanes on.
struct Lanes {
  Vector v[kVectors];
};

template <class Function>
HWY_INLINE Lanes Each(const Function& function) {
  Lanes out;
  for (uint32_t i = 0; i < kVectors; ++i) out.v[i] = function(i);
  return out;
}

HWY_INLINE Lanes Fill(float x) {
  return Each([&](uint32_t) HWY_ATTR { return hn::Set(kFloats, x); });
}
HWY_INLINE Lanes Mul(const Lanes& a, const Lanes& b) {
  return Each([&](uint32_t i) HWY_ATTR { return hn::Mul(a.v[i], b.v[i]); });
}
HWY_INLINE Lanes Add(const Lanes& a, const Lanes& b) {
  return Each([&](uint32_t i) HWY_ATTR { return hn::Add(a.v[i], b.v[i]); });
}
HWY_INLINE Lanes Sub(const Lanes& a, const Lanes& b) {
  return Each([&](uint32_t i) HWY_ATTR { return hn::Sub(a.v[i], b.v[i]); });
}
HWY_INLINE Lanes Div(const Lanes& a, const Lanes& b) {
  return Each([&](uint32_t i) HWY_ATTR { return hn::Div(a.v[i], b.v[i]); });
}
HWY_INLINE Lanes MaxOf(const Lanes& a, const Lanes& b) {
  return Each([&](uint32_t i) HWY_ATTR { return hn::Max(a.v[i], b.v[i]); });
}
// a * b + c, rounded once
HWY_INLINE Lanes MulAdd(const Lanes& a, const Lanes& b, const Lanes& c) {
  return Each([&](uint32_t i) HWY_ATTR { return hn::MulAdd(a.v[i], b.v[i], c.v[i]); });
}

HWY_INLINE Vector LoadVector(const float* from) { return hn::LoadU(kFloats, from); }
// bf16 elements are the upper halves of floats.
HWY_INLINE Vector LoadVector(const uint16_t* from) {
  const hn::Rebind<uint16_t, Floats> halves;
  const hn::Rebind<uint32_t, Floats> words;
  return hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, from))));
}
template <class Element>
HWY_INLINE Lanes Load(const Element* from) {
  return Each([&](uint32_t i) HWY_ATTR { return LoadVector(from + i * kLanes); });
}
HWY_INLINE void Store(const Lanes& x, float* to) {
  for (uint32_t i = 0; i < kVectors; ++i) hn::StoreU(x.v[i], kFloats, to + i * kLanes);
}

// To the nearest element, ties to even, as a float. A NaN stays one.
template <class Element>
HWY_INLINE Lanes RoundTo(const Lanes& x) {
  if constexpr (sizeof(Element) == sizeof(float)) return x;
  const hn::Rebind<uint32_t, Floats> words;
  return Each([&](uint32_t i) HWY_ATTR {
    const auto bits = hn::BitCast(words, x.v[i]);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff)));
    return hn::BitCast(kFloats, hn::And(rounded, hn::Set(words, 0xffff0000u)));
  });
}

// `x` holds values that are elements already.
HWY_INLINE void StoreRounded(const Lanes& x, float* to) { Store(x, to); }
HWY_INLINE void StoreRounded(const Lanes& x, uint16_t* to) {
  const hn::Rebind<uint16_t, Floats> halves;
  const hn::Rebind<int32_t, Floats> words;
  const hn::Rebind<uint32_t, Floats> bits;
  for (uint32_t i = 0; i < kVectors; ++i) {
    const auto upper = hn::ShiftRight<16>(hn::BitCast(bits, x.v[i]));
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(words, upper)), halves, to + i * kLanes);
  }
}
template <class Element>
HWY_INLINE void StoreElements(const Lanes& x, Element* to) {
  StoreRounded(RoundTo<Element>(x), to);
}

// In one order for every target: 8 + 8, 4 + 4, ...
HWY_INLINE float SumOf(const Lanes& x) {
  float lanes[kTileRows];
  Store(x, lanes);
  for (uint32_t half = kTileRows / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}
HWY_INLINE float MaxLaneOf(const Lanes& x) {
  float lanes[kTileRows];
  Store(x, lanes);
  float max = lanes[0];
  for (uint32_t i = 1; i < kTileRows; ++i) max = lanes[i] > max ? lanes[i] : max;
  return max;
}

// e^x to about 1e-7, from exp(0) = 1 exactly down to e^-87, below which it is e^-87's 1e-38. The
// polynomial is that of Cephes' expf.c.
HWY_INLINE Lanes Exp(const Lanes& x) {
  const hn::Rebind<int32_t, Floats> words;
  return Each([&](uint32_t i) HWY_ATTR {
    const auto set = [](float value) HWY_ATTR { return hn::Set(kFloats, value); };
    const Vector clamped = hn::Min(hn::Max(x.v[i], set(-87.0f)), set(88.0f));
    const Vector n = hn::Round(hn::Mul(clamped, set(1.44269504088896341f)));
    Vector r = hn::NegMulAdd(n, set(0.693359375f), clamped);
    r = hn::NegMulAdd(n, set(-2.12194440e-4f), r);
    Vector p = set(1.9875691500e-4f);
    p = hn::MulAdd(p, r, set(1.3981999507e-3f));
    p = hn::MulAdd(p, r, set(8.3334519073e-3f));
    p = hn::MulAdd(p, r, set(4.1665795894e-2f));
    p = hn::MulAdd(p, r, set(1.6666665459e-1f));
    p = hn::MulAdd(p, r, set(5.0000001201e-1f));
    p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, set(1.0f)));
    const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(words, n), hn::Set(words, 127)));
    return hn::Mul(p, hn::BitCast(kFloats, power));
  });
}
HWY_INLINE float Exp(float x) {
  float lanes[kTileRows];
  Store(Exp(Fill(x)), lanes);
  return lanes[0];
}

HWY_INLINE Lanes Silu(const Lanes& x) { return Div(x, Add(Fill(1.0f), Exp(Sub(Fill(0.0f), x)))); }

// What becomes of the sums of row `m` and the outputs of tile `tile` (Product::into); `up` are the
// sums of the tile after it.
template <class Element>
HWY_INLINE void Put(const Product& product, uint32_t m, uint32_t tile, const Lanes& sums,
                    const Lanes* up) {
  const uint64_t row = uint64_t{m} * product.out_stride;
  const uint64_t n = uint64_t{tile} * kTileRows;
  Element* const elements = static_cast<Element*>(product.out) + row;
  float* const floats = static_cast<float*>(product.out) + row;
  switch (product.into) {
    case Into::kElements: StoreElements(sums, elements + n); return;
    case Into::kResidual:
      StoreElements(Add(Load(elements + n), RoundTo<Element>(sums)), elements + n);
      return;
    case Into::kGated: {
      const Lanes gate = RoundTo<Element>(Silu(RoundTo<Element>(sums)));
      StoreElements(Mul(gate, RoundTo<Element>(*up)), elements + n / 2);
      return;
    }
    case Into::kFloats: Store(sums, floats + n); return;
    case Into::kLogits: Store(RoundTo<Element>(sums), floats + n); return;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvbed
HWY_AFTER_NAMESPACE();

#endif
