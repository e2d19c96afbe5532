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

TEST(ContextLists, RangesWhoseProductsDontFitInto64BitsEnd) {
  EXPECT_EQ(*ParseTokenCounts("1-1048576m*1048576m"),
            (std::vector<uint64_t>{1, uint64_t{1} << 40}));
}

TEST(BlockSizes, AreFiosWithKAs1024) {
  EXPECT_EQ(*ParseBlockSizes("64k,1m,4MiB"), (std::vector<uint64_t>{65536, 1048576, 4194304}));
  EXPECT_EQ(*ParseBlockSizes("64k-256k*2"), (std::vector<uint64_t>{65536, 131072, 262144}));
  for (const char* text : {"", "0", "64kb", "64k;1m", "1t", "-1k", "4k-1g+4k"}) {
    EXPECT_TRUE(FailsWith(ParseBlockSizes(text).status(), StatusCode::kInvalidArgument, "64k"));
  }
}

TEST(Depths, AreListsOfNumbers) {
  EXPECT_EQ(*ParseDepths("1,4,16"), (std::vector<uint64_t>{1, 4, 16}));
  EXPECT_EQ(*ParseDepths("1-8*2"), (std::vector<uint64_t>{1, 2, 4, 8}));
  EXPECT_TRUE(FailsWith(ParseDepths("1,x").status(), StatusCode::kInvalidArgument, "depths"));
}

TEST(Choices, AreEachOneOfAFew) {
  const std::vector<std::string> allowed = {"read", "write"};
  EXPECT_EQ(*ParseChoices("write,read", allowed), (std::vector<std::string>{"write", "read"}));
  EXPECT_TRUE(FailsWith(ParseChoices("wriet", allowed).status(), StatusCode::kInvalidArgument,
                        "did you mean write?"));
  EXPECT_TRUE(FailsWith(ParseChoices("read,read", allowed).status(), StatusCode::kInvalidArgument,
                        "twice"));
  EXPECT_FALSE(ParseChoices("", allowed).ok());
  EXPECT_FALSE(ParseChoices("read,", allowed).ok());
}

TEST(TokenIds, AreNumbersWithCommas) {
  EXPECT_EQ(*ParseTokenIds("504,3575,0"), (std::vector<int32_t>{504, 3575, 0}));
  for (const char* text : {"", "1,", ",1", "1 2", "-1", "99999999999", "x"}) {
    EXPECT_FALSE(ParseTokenIds(text).ok()) << text;
  }
}

}  // namespace
}  // namespace kvbed
