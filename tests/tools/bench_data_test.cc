// What a benchmark's blocks hold, and in which order they are visited.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "offload/aligned_buffer.h"
#include "tests/support/status_matchers.h"
#include "tools/bench/block_order.h"
#include "tools/bench/page_stamps.h"

namespace kvbed {
namespace {

std::vector<uint64_t> Visited(BlockOrderKind kind, uint64_t blocks, uint64_t seed) {
  const BlockOrder order(kind, blocks, seed);
  std::vector<uint64_t> visited;
  for (uint64_t i = 0; i < blocks; ++i) visited.push_back(order.At(i));
  return visited;
}

TEST(BlockOrder, VisitsEachBlockOnce) {
  for (uint64_t blocks : {1, 2, 3, 7, 8, 9, 1000, 4097}) {
    for (uint64_t seed : {0, 1, 99}) {
      std::vector<uint64_t> visited = Visited(BlockOrderKind::kRandom, blocks, seed);
      std::sort(visited.begin(), visited.end());
      EXPECT_EQ(visited, Visited(BlockOrderKind::kSequential, blocks, seed)) << blocks;
    }
  }
}

TEST(BlockOrder, RandomIsShuffledAndByTheSeed) {
  const auto one = Visited(BlockOrderKind::kRandom, 1000, 1);
  EXPECT_EQ(one, Visited(BlockOrderKind::kRandom, 1000, 1));
  EXPECT_NE(one, Visited(BlockOrderKind::kRandom, 1000, 2));
  uint64_t neighbours = 0;
  for (size_t i = 1; i < one.size(); ++i) neighbours += one[i] == one[i - 1] + 1;
  EXPECT_LT(neighbours, 20u);
}

TEST(PageStamps, MakeEveryPageOfEveryRoundUnlikeAllOthers) {
  constexpr uint64_t kPages = 64;
  ASSERT_OK_AND_ASSIGN(AlignedBuffer block, AlignedBuffer::Allocate(kPages * kPageBytes));
  std::set<std::string> pages;
  for (uint64_t round : {0, 1}) {
    for (uint64_t first_page : {0, 64}) {
      PageStamps(5, round).Stamp(block.bytes(), first_page);
      for (uint64_t page = 0; page < kPages; ++page) {
        const Bytes bytes = block.bytes().subspan(page * kPageBytes, kPageBytes);
        pages.emplace(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
    }
  }
  EXPECT_EQ(pages.size(), 4 * kPages);
}

TEST(PageStamps, MatchOnlyWhatTheyStamped) {
  ASSERT_OK_AND_ASSIGN(AlignedBuffer block, AlignedBuffer::Allocate(3 * kPageBytes));
  const PageStamps stamps(5, 1);
  stamps.Stamp(block.bytes(), 30);
  EXPECT_TRUE(stamps.Match(block.bytes(), 30));
  EXPECT_FALSE(stamps.Match(block.bytes(), 33));
  EXPECT_FALSE(PageStamps(5, 2).Match(block.bytes(), 30));
  EXPECT_FALSE(PageStamps(6, 1).Match(block.bytes(), 30));
  PageStamps::Poison(block.bytes().subspan(2 * kPageBytes));
  EXPECT_FALSE(stamps.Match(block.bytes(), 30)) << "the last page counts too";
}

}  // namespace
}  // namespace kvbed
