// Whether rounds of a measurement have come to a steady state, as SNIA's Solid State Storage
// Performance Test Specification defines it. It knows no unit.
#pragma once

#include <cstddef>
#include <vector>

namespace kvbed {

constexpr size_t kSteadyWindow = 5;

// Of the last five values: the largest less the smallest is at most 20 % of their mean, and the
// least-squares line over them rises or falls by at most 10 % of it. False for fewer than five.
bool IsSteady(const std::vector<double>& rounds);

}  // namespace kvbed
