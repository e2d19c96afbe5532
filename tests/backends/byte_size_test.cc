// Sizes as people write them.
#include "backends/byte_size.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

TEST(ByteSizeTest, ThousandsAndTenTwentyFours) {
  const std::pair<const char*, uint64_t> cases[] = {
      {"0", 0},
      {"512", 512},
      {"512B", 512},
      {"64k", 64'000},
      {"64K", 64'000},
      {"64kB", 64'000},
      {"64KiB", 65'536},
      {"64Ki", 65'536},
      {"3M", 3'000'000},
      {"3MiB", uint64_t{3} << 20},
      {"1.5G", 1'500'000'000},
      {"1.5GiB", uint64_t{3} << 29},
      {"2T", 2'000'000'000'000},
      {"1TiB", uint64_t{1} << 40},
      {"9223372036854775807", INT64_MAX},
  };
  for (const auto& [text, bytes] : cases) {
    ASSERT_OK_AND_ASSIGN(const uint64_t parsed, ParseByteSize(text, "capacity"));
    EXPECT_EQ(parsed, bytes) << text;
  }
}

TEST(ByteSizeTest, WhatIsNoSizeIsRefusedWithTheSuffixes) {
  for (const char* text :
       {"", "k", "1x", "1kk", "-1", "+1", " 1", "1 k", "1.5", "1.2.3k", ".", "1e3", "0x10",
        "9223372036854775808", "99999999999999999999", "10000000T", "9000000TiB", "1iB", "1Bk"}) {
    EXPECT_TRUE(FailsWith(StatusOf(ParseByteSize(text, "capacity")), StatusCode::kInvalidArgument,
                          "KiB, MiB, GiB, TiB"))
        << text;
  }
  EXPECT_TRUE(StatusOf(ParseByteSize("x", "pool-bytes")).message().starts_with("pool-bytes 'x'"));
}

}  // namespace
}  // namespace kvbed
