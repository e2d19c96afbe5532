#include "tools/memory_room.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

TEST(MemoryRoom, SmallThingsFit) { EXPECT_OK(CheckMemoryFor(16, 4096, "16 tokens")); }

TEST(MemoryRoom, WhatIsTooMuchIsRefusedWithFigures) {
  ASSERT_TRUE(AvailableMemoryBytes().has_value());
  EXPECT_TRUE(FailsWith(CheckMemoryFor(*AvailableMemoryBytes(), 1, "a wish"),
                        StatusCode::kOutOfSpace, "a wish need about"));
  // The product wraps round to a small number.
  EXPECT_TRUE(FailsWith(CheckMemoryFor(uint64_t{1} << 40, uint64_t{1} << 24, "a wish"),
                        StatusCode::kOutOfSpace));
}

}  // namespace
}  // namespace kvbed
