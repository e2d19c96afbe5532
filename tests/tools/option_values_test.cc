#include "tools/option_values.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

TEST(TokenCounts, TakeKAs1024) {
  EXPECT_EQ(*ParseTokenCount("1"), 1u);
  EXPECT_EQ(*ParseTokenCount("4k"), 4096u);
  EXPECT_EQ(*ParseTokenCount("1m"), 1048576u);
}

TEST(TokenCounts, RefuseNonsense) {
  for (const char* text :
       {"", "0", "-4", "4kk", "k", "1e3", "nan", "inf", "1.0001k", "99999999999m"}) {
    EXPECT_FALSE(ParseTokenCount(text).ok()) << text;
  }
}

TEST(ContextLists, EnumerateDoubleAndStep) {
  EXPECT_EQ(*ParseTokenCounts("1k,4k"), (std::vector<uint64_t>{1024, 4096}));
  EXPECT_EQ(*ParseTokenCounts("1k-8k*2"), (std::vector<uint64_t>{1024, 2048, 4096, 8192}));
  EXPECT_EQ(*ParseTokenCounts("88-104+8"), (std::vector<uint64_t>{88, 96, 104}));
  EXPECT_EQ(*ParseTokenCounts("5,1k-2k*2"), (std::vector<uint64_t>{5, 1024, 2048}));
}

TEST(ContextLists, RefuseEndlessEmptyAndBackwardOnes) {
  for (const char* text : {"1k-2k", "1-9*1", "9-1+1", "1-1m+1", ",", "1,,2", "1-2+0", "-+", "*"}) {
    EXPECT_FALSE(ParseTokenCounts(text).ok()) << text;
  }
}

TEST(TokenIds, AreNumbersWithCommas) {
  EXPECT_EQ(*ParseTokenIds("504,3575,0"), (std::vector<int32_t>{504, 3575, 0}));
  for (const char* text : {"", "1,", ",1", "1 2", "-1", "99999999999", "x"}) {
    EXPECT_FALSE(ParseTokenIds(text).ok()) << text;
  }
}

}  // namespace
}  // namespace kvbed
