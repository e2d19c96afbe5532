#include "tools/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "offload/check.h"

namespace kvbed {

double Median(std::vector<double> values) {
  KVBED_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<double> MedianOf(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(Median(values));
}

std::optional<double> MedianOfRatios(const std::vector<double>& ours,
                                     const std::vector<double>& theirs) {
  if (ours.empty() || ours.size() != theirs.size()) return std::nullopt;
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  return Median(ratios);
}

double CoefficientOfVariation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (double value : values) squares += (value - mean) * (value - mean);
  return mean == 0 ? 0 : std::sqrt(squares / (count - 1)) / mean;
}

uint64_t Percentile(const std::vector<uint64_t>& sorted, double percent) {
  KVBED_CHECK(!sorted.empty() && percent > 0 && percent <= 100);
  // A rank that is whole must not become the next one by rounding.
  const double rank = percent / 100 * static_cast<double>(sorted.size());
  const auto at = static_cast<size_t>(std::ceil(rank - 1e-9));
  return sorted[std::clamp<size_t>(at, 1, sorted.size()) - 1];
}

Percentiles PercentilesOf(std::vector<uint64_t> values) {
  Percentiles out;
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  out.p50 = Percentile(values, 50);
  if (values.size() >= 100) out.p99 = Percentile(values, 99);
  if (values.size() >= 1000) out.p99_9 = Percentile(values, 99.9);
  return out;
}

}  // namespace kvbed
