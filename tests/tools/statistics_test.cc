// Medians, spreads and percentiles.
#include "tools/bench/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvbed {
namespace {

TEST(Median, IsTheMiddleOne) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Median({7}), 7);
  EXPECT_EQ(Median({1, 1, 1, 100, 100}), 1) << "not the mean";
}

TEST(Median, OfRatiosIsOfPairs) {
  EXPECT_EQ(MedianOfRatios({2, 9, 4}, {1, 3, 1}), 3) << "not the ratio of medians";
  EXPECT_EQ(MedianOfRatios({1, 2}, {1}), std::nullopt);
  EXPECT_EQ(MedianOfRatios({}, {}), std::nullopt);
  EXPECT_EQ(MedianOf({}), std::nullopt);
}

TEST(Variation, IsTheSamplesDeviationOverItsMean) {
  EXPECT_DOUBLE_EQ(CoefficientOfVariation({2, 4, 4, 4, 5, 5, 7, 9}), std::sqrt(32.0 / 7) / 5);
  EXPECT_EQ(CoefficientOfVariation({5, 5, 5}), 0);
  EXPECT_EQ(CoefficientOfVariation({5}), 0);
}

TEST(Percentile, IsByNearestRank) {
  const std::vector<uint64_t> values = {15, 20, 35, 40, 50};
  EXPECT_EQ(Percentile(values, 5), 15u);
  EXPECT_EQ(Percentile(values, 40), 20u) << "a whole rank is that rank";
  EXPECT_EQ(Percentile(values, 41), 35u);
  EXPECT_EQ(Percentile(values, 100), 50u);
}

std::vector<uint64_t> Descending(uint64_t count) {
  std::vector<uint64_t> values;
  for (uint64_t i = count; i > 0; --i) values.push_back(i);
  return values;
}

TEST(Percentiles, AreAbsentWhereTooFewValuesWereSeen) {
  EXPECT_EQ(PercentilesOf({}), Percentiles{});
  EXPECT_EQ(PercentilesOf(Descending(99)).p99, std::nullopt);
  EXPECT_EQ(PercentilesOf(Descending(100)).p99, 99u);
  EXPECT_EQ(PercentilesOf(Descending(100)).p50, 50u);
  EXPECT_EQ(PercentilesOf(Descending(999)).p99_9, std::nullopt);
  EXPECT_EQ(PercentilesOf(Descending(1000)).p99_9, 999u);
}

}  // namespace
}  // namespace kvbed
