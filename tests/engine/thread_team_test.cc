#include "engine/kernels/native/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <vector>

namespace kvbed {
namespace {

TEST(ThreadTeam, RunsEachUnitOnce) {
  for (uint32_t threads : {1u, 2u, 5u}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.size(), threads);
    for (uint64_t units : {0u, 1u, 2u, 17u, 1000u}) {
      std::vector<std::atomic<int>> runs(units);
      team.ForEach(units, [&](uint32_t thread, uint64_t unit) {
        EXPECT_LT(thread, threads);
        ++runs[unit];
      });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadTeam, GivesEachThreadItsOwnNumber) {
  ThreadTeam team(4);
  std::vector<std::vector<uint64_t>> by_thread(team.size());
  for (int round = 0; round < 200; ++round) {
    team.ForEach(64, [&](uint32_t thread, uint64_t unit) { by_thread[thread].push_back(unit); });
  }
  uint64_t units = 0, sum = 0;
  for (const auto& list : by_thread) {
    units += list.size();
    sum = std::accumulate(list.begin(), list.end(), sum);
  }
  EXPECT_EQ(units, 200u * 64);
  EXPECT_EQ(sum, 200u * (63 * 64 / 2));
}

// What a job wrote is there when ForEach returns, and the next job sees it: many short ones, so
// that late threads meet a job that is over.
TEST(ThreadTeam, JobsFollowEachOther) {
  ThreadTeam team(3);
  std::vector<uint64_t> values(3, 0);
  for (uint64_t round = 1; round <= 20000; ++round) {
    team.ForEach(values.size(), [&](uint32_t, uint64_t unit) {
      EXPECT_EQ(values[unit], round - 1);
      values[unit] = round;
    });
  }
  EXPECT_EQ(values, std::vector<uint64_t>(3, 20000));
}

TEST(ThreadTeam, EndsWhileItsThreadsSleep) {
  for (int round = 0; round < 20; ++round) {
    ThreadTeam team(4);
    if (round % 2 == 0) team.ForEach(8, [](uint32_t, uint64_t) {});
  }
}

}  // namespace
}  // namespace kvbed
