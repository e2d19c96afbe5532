#include "tools/bench/steady_state.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvbed {
namespace {

// SNIA SSS PTS, "steady state": data excursion and slope excursion over the measurement window.
constexpr double kDataExcursion = 0.20;
constexpr double kSlopeExcursion = 0.10;

// Of the least-squares line over the values at 0, 1, 2, ...
double Slope(const std::vector<double>& values, double mean) {
  const double middle = static_cast<double>(values.size() - 1) / 2;
  double covariance = 0, variance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double at = static_cast<double>(i) - middle;
    covariance += at * (values[i] - mean);
    variance += at * at;
  }
  return covariance / variance;
}

}  // namespace

bool IsSteady(const std::vector<double>& rounds) {
  if (rounds.size() < kSteadyWindow) return false;
  const std::vector<double> window(rounds.end() - kSteadyWindow, rounds.end());
  const double mean = std::accumulate(window.begin(), window.end(), 0.0) / kSteadyWindow;
  const auto [least, most] = std::minmax_element(window.begin(), window.end());
  return *most - *least <= kDataExcursion * mean &&
         std::abs(Slope(window, mean)) * (kSteadyWindow - 1) <= kSlopeExcursion * mean;
}

}  // namespace kvbed
