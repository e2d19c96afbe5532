// The steady state of SNIA's PTS: a window of five that neither varies nor drifts too much.
#include "tools/bench/steady_state.h"

#include <gtest/gtest.h>

namespace kvbed {
namespace {

TEST(SteadyState, IsReachedByFiveThatAreAlike) {
  EXPECT_TRUE(IsSteady({2, 2, 2, 2, 2}));
  EXPECT_TRUE(IsSteady({0.95, 1.04, 0.97, 1.03, 1.0}));
  EXPECT_FALSE(IsSteady({2, 2, 2, 2})) << "only four";
  EXPECT_FALSE(IsSteady({}));
}

TEST(SteadyState, LooksAtTheLastFiveOnly) {
  EXPECT_TRUE(IsSteady({9, 1, 1, 1, 1, 1}));
  EXPECT_FALSE(IsSteady({1, 1, 1, 1, 1, 9}));
}

TEST(SteadyState, IsNotReachedWhileValuesVaryByMoreThanAFifth) {
  EXPECT_TRUE(IsSteady({1, 0.91, 1.09, 0.95, 1.05}));
  EXPECT_FALSE(IsSteady({1, 0.88, 1.12, 0.95, 1.05}));
}

// Within 20 %, but on the way down: 3 % a round is 12 % over the window.
TEST(SteadyState, IsNotReachedWhileTheyDrift) {
  EXPECT_FALSE(IsSteady({1.06, 1.03, 1, 0.97, 0.94}));
  EXPECT_FALSE(IsSteady({0.94, 0.97, 1, 1.03, 1.06}));
  EXPECT_TRUE(IsSteady({1.04, 1.02, 1, 0.98, 0.96}));
}

}  // namespace
}  // namespace kvbed
