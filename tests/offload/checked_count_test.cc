#include "offload/checked_count.h"

#include <gtest/gtest.h>

namespace kvbed {
namespace {

TEST(CheckedCount, IsExactUpToTheLastNumberOf64Bits) {
  EXPECT_EQ((CheckedCount(327680) * 112000 + 1).value(), 36700160001u);
  EXPECT_EQ((CheckedCount(UINT32_MAX) * UINT32_MAX + UINT32_MAX + UINT32_MAX).value(), UINT64_MAX);
}

TEST(CheckedCount, RemembersThatItLeft64Bits) {
  EXPECT_FALSE((CheckedCount(UINT64_MAX) + 1).value());
  EXPECT_FALSE((CheckedCount(1ull << 32) * (1ull << 32)).value());
  // Whatever follows, on either side.
  EXPECT_FALSE(((CheckedCount(UINT64_MAX) * 2) * 0).value());
  EXPECT_FALSE((CheckedCount(0) * (CheckedCount(UINT64_MAX) + 1)).value());
  EXPECT_FALSE((CheckedCount(1) + (CheckedCount(UINT64_MAX) + 1)).value());
}

}  // namespace
}  // namespace kvbed
