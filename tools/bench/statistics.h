// What a benchmark says of its samples: median, spread, percentiles. It knows no unit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kvbed {

// The mean of the two middle ones for an even number. At least one value.
double Median(std::vector<double> values);

// Absent for no value.
std::optional<double> MedianOf(const std::vector<double>& values);

// The median of the ratios of pairs; absent unless each of ours has its counterpart.
std::optional<double> MedianOfRatios(const std::vector<double>& ours,
                                     const std::vector<double>& theirs);

// Standard deviation of the sample over its mean; 0 for fewer than two values.
double CoefficientOfVariation(const std::vector<double>& values);

// Nearest rank: the smallest value that at least `percent` of all values don't exceed. `sorted` is
// ascending and not empty.
uint64_t Percentile(const std::vector<uint64_t>& sorted, double percent);

// A percentile is absent where there are too few values to have seen it: 100 for the 99th, 1000 for
// the 99.9th.
struct Percentiles {
  std::optional<uint64_t> p50;
  std::optional<uint64_t> p99;
  std::optional<uint64_t> p99_9;
  bool operator==(const Percentiles&) const = default;
};
Percentiles PercentilesOf(std::vector<uint64_t> values);

}  // namespace kvbed
