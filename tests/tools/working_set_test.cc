// The order in which a working set is restored: over all of it, never the newest, and the same for
// the same seed.
#include "tools/bench/working_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tools/bench/seeded_order.h"

namespace kvbed {
namespace {

TEST(SeededOrder, HasEachNumberOnceAndDependsOnTheSeedAlone) {
  const std::vector<uint64_t> order = SeededOrder(100, 7);
  EXPECT_EQ(order, SeededOrder(100, 7));
  EXPECT_NE(order, SeededOrder(100, 8));
  std::vector<uint64_t> sorted = order;
  std::ranges::sort(sorted);
  std::vector<uint64_t> expected(100);
  std::iota(expected.begin(), expected.end(), uint64_t{0});
  EXPECT_EQ(sorted, expected);
  EXPECT_NE(order, expected);
  EXPECT_TRUE(SeededOrder(0, 7).empty());
}

TEST(WorkingSet, OfOneSnapshotIsWrittenAndRestoredEachTime) {
  WorkingSet set(1, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(set.Next(), (WorkingSetTurn{0, 0}));
  EXPECT_EQ(set.NextRead(), 0u);
}

TEST(WorkingSet, NeverRestoresTheNewest) {
  for (uint64_t snapshots : {2, 3, 5, 16}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      WorkingSet set(snapshots, seed);
      uint64_t newest = 0;
      for (uint64_t turns = 0; turns < 5 * snapshots; ++turns) {
        const WorkingSetTurn turn = set.Next();
        newest = turn.write;
        EXPECT_NE(turn.read, newest) << snapshots << " snapshots, seed " << seed;
      }
      for (uint64_t reads = 0; reads < snapshots; ++reads) EXPECT_NE(set.NextRead(), newest);
    }
  }
}

TEST(WorkingSet, FirstWritesTheOneThatIsMissingAndThenWhatWasRestored) {
  WorkingSet set(8, 5);
  WorkingSetTurn last = set.Next();
  EXPECT_EQ(last.write, 7u);
  for (int i = 0; i < 30; ++i) {
    const WorkingSetTurn turn = set.Next();
    EXPECT_EQ(turn.write, last.read);
    last = turn;
  }
}

TEST(WorkingSet, ComesRoundToAllOfIt) {
  WorkingSet set(8, 5);
  std::set<uint64_t> read;
  for (int i = 0; i < 16; ++i) read.insert(set.Next().read);
  EXPECT_EQ(read.size(), 8u);
}

}  // namespace
}  // namespace kvbed
