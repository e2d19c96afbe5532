// The element types of KV as bit patterns: their values, their order, and how two runs of elements
// differ. It doesn't know where the elements come from.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "offload/bytes.h"
#include "verify/drift.h"

namespace kvbed {

// Sign and magnitude, like all of IEEE 754. Magnitudes from kInf on are infinities or NaN.
template <class B, B kInf>
struct SignMagnitude {
  using Bits = B;
  static constexpr Bits kMagnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  static constexpr Bits kInfinity = kInf;
  static bool IsFinite(Bits bits) { return (bits & kMagnitude) < kInfinity; }
  // The place of a value among all values of its dtype in order; neighbours are 1 apart.
  static int64_t Order(Bits bits) {
    const int64_t magnitude = bits & kMagnitude;
    const int64_t sign = -int64_t{bits > kMagnitude};  // all ones for negative values
    return (magnitude ^ sign) - sign;
  }

 protected:
  // Of a type of `exponent_bits` and `mantissa_bits`, both below fp32's.
  template <int exponent_bits, int mantissa_bits>
  static float ValueOf(Bits bits) {
    constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
    const uint32_t magnitude = bits & kMagnitude;
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const auto mantissa = static_cast<float>(magnitude & ((1u << mantissa_bits) - 1));
    const auto one = static_cast<float>(1 << mantissa_bits);
    const float value = exponent == 0
                            ? std::ldexp(mantissa, 1 - kBias - mantissa_bits)
                            : std::ldexp(one + mantissa, exponent - kBias - mantissa_bits);
    return bits > kMagnitude ? -value : value;
  }
};

struct Bf16Bits : SignMagnitude<uint16_t, 0x7f80> {
  static float Value(Bits bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
};
struct Fp32Bits : SignMagnitude<uint32_t, 0x7f800000> {
  static float Value(Bits bits) { return std::bit_cast<float>(bits); }
};
// The following give values of finite patterns only.
struct Fp16Bits : SignMagnitude<uint16_t, 0x7c00> {
  static float Value(Bits bits) { return ValueOf<5, 10>(bits); }
};
// Without infinities, and with one NaN ("fn").
struct Fp8E4m3Bits : SignMagnitude<uint8_t, 0x7f> {
  static float Value(Bits bits) { return ValueOf<4, 3>(bits); }
};
struct Fp8E5m2Bits : SignMagnitude<uint8_t, 0x7c> {
  static float Value(Bits bits) { return ValueOf<5, 2>(bits); }
};
struct Int8Bits {
  using Bits = uint8_t;
  static bool IsFinite(Bits) { return true; }
  static int64_t Order(Bits bits) { return static_cast<int8_t>(bits); }
  static float Value(Bits bits) { return static_cast<float>(static_cast<int8_t>(bits)); }
};
// A byte of which nobody said what it stands for: it has no value and no order.
struct ByteBits {
  using Bits = uint8_t;
  static bool IsFinite(Bits) { return true; }
  static int64_t Order(Bits) { return 0; }
  static float Value(Bits) { return 0; }
};

template <class T>
typename T::Bits LoadBits(Bytes bytes, size_t index) {
  typename T::Bits bits;
  std::memcpy(&bits, bytes.data() + index * sizeof(bits), sizeof(bits));
  return bits;
}

// Adds what two runs of as many elements differ by. Two finite values may differ by more than a
// float holds: `Difference` is double where such values are to be expected.
template <class T, class Difference = float>
void CompareElements(Bytes cached, Bytes recomputed, DriftPart& part) {
  const size_t elements = cached.size() / sizeof(typename T::Bits);
  part.elements += elements;
  if (std::memcmp(cached.data(), recomputed.data(), cached.size()) == 0) {
    part.identical += elements;
    return;
  }
  // Without branches, and in locals: the loop sees millions of elements that nearly all differ.
  uint64_t identical = 0, non_finite = 0;
  Difference max_abs = 0;
  int64_t max_ulp = 0;
  for (size_t i = 0; i < elements; ++i) {
    const auto a = LoadBits<T>(cached, i), b = LoadBits<T>(recomputed, i);
    const bool finite = T::IsFinite(a) & T::IsFinite(b);
    identical += a == b;
    non_finite += !finite & (a != b);
    const Difference difference = std::fabs(Difference{T::Value(a)} - Difference{T::Value(b)});
    const int64_t distance = std::abs(T::Order(a) - T::Order(b));
    max_abs = std::max(max_abs, finite ? difference : Difference{0});
    max_ulp = std::max(max_ulp, finite ? distance : 0);
  }
  part.identical += identical;
  part.non_finite += non_finite;
  part.max_abs = std::max(part.max_abs, double{max_abs});
  part.max_ulp = std::max(part.max_ulp, static_cast<uint64_t>(max_ulp));
}

}  // namespace kvbed
