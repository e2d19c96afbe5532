// A count that remembers when it left 64 bits, so that a formula can be written as it is in a paper
// and asked once whether its result is true. It doesn't know what is counted.
#pragma once

#include <cstdint>
#include <optional>

namespace kvbed {

class CheckedCount {
 public:
  constexpr CheckedCount(uint64_t value) : value_(value) {}  // NOLINT: implicit, for formulas

  friend constexpr CheckedCount operator*(CheckedCount a, CheckedCount b) {
    CheckedCount product(0);
    product.overflowed_ = __builtin_mul_overflow(a.value_, b.value_, &product.value_);
    product.overflowed_ |= a.overflowed_ || b.overflowed_;
    return product;
  }
  friend constexpr CheckedCount operator+(CheckedCount a, CheckedCount b) {
    CheckedCount sum(0);
    sum.overflowed_ = __builtin_add_overflow(a.value_, b.value_, &sum.value_);
    sum.overflowed_ |= a.overflowed_ || b.overflowed_;
    return sum;
  }

  // Nullopt when anything on the way was 2^64 or more.
  constexpr std::optional<uint64_t> value() const {
    return overflowed_ ? std::nullopt : std::optional(value_);
  }

 private:
  uint64_t value_;
  bool overflowed_ = false;
};

}  // namespace kvbed
