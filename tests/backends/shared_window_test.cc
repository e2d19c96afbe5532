// Memory shared with a store's process: another mapping of it, its size, and what is told from the
// pattern that it is full of.
#include "backends/shared_window.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "offload/aligned_buffer.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

TEST(SharedWindowTest, IsMappedByItsPathAndKeepsItsSize) {
  ASSERT_OK_AND_ASSIGN(const SharedWindow window, SharedWindow::Create(2 * kPageBytes));
  const int fd = ::open(window.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0) << window.path();
  auto* const other = static_cast<char*>(
      ::mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(other, MAP_FAILED);
  other[kPageBytes] = 'x';
  EXPECT_EQ(window.bytes()[kPageBytes], std::byte{'x'});
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_NE(::ftruncate(fd, 4 * kPageBytes), 0);
  ::munmap(other, 2 * kPageBytes);
  ::close(fd);
}

TEST(SharedWindowTest, WhatWasntWrittenIsTold) {
  ASSERT_OK_AND_ASSIGN(const SharedWindow window, SharedWindow::Create(3 * kPageBytes));
  const uint64_t stamp = 0x0123456789abcdef;
  const MutableBytes pages = window.bytes();
  EXPECT_FALSE(AreStamped(pages, stamp));
  StampPages(pages, stamp);
  EXPECT_TRUE(AreStamped(pages, stamp));
  EXPECT_EQ(FirstStampedPage(pages, stamp), 0u);
  std::fill(pages.begin(), pages.begin() + kPageBytes + 100, std::byte{7});
  EXPECT_FALSE(AreStamped(pages, stamp));
  EXPECT_EQ(FirstStampedPage(pages, stamp), 1u);
  std::fill(pages.begin(), pages.end(), std::byte{7});
  EXPECT_EQ(FirstStampedPage(pages, stamp), 3u);
}

}  // namespace
}  // namespace kvbed
