#include "offload/aligned_buffer.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

uintptr_t Address(const AlignedBuffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.bytes().data());
}

TEST(AlignedBuffer, IsZeroedAndAlignedToPages) {
  for (uint64_t size : {1, 4096, 4097, 100000}) {
    ASSERT_OK_AND_ASSIGN(const AlignedBuffer buffer, AlignedBuffer::Allocate(size));
    EXPECT_EQ(Address(buffer) % kPageBytes, 0u);
    EXPECT_EQ(buffer.size_bytes(), RoundUp(size, kPageBytes));
    EXPECT_TRUE(AllZero(buffer.bytes()));
  }
}

TEST(AlignedBuffer, LargeOnesAreAlignedToHugePagesAndWritableToTheEnd) {
  for (uint64_t size : {kHugePageBytes, kHugePageBytes + 1, 3 * kHugePageBytes + 4096}) {
    ASSERT_OK_AND_ASSIGN(AlignedBuffer buffer, AlignedBuffer::Allocate(size));
    EXPECT_EQ(Address(buffer) % kHugePageBytes, 0u);
    buffer.bytes().front() = buffer.bytes().back() = std::byte{1};
  }
}

TEST(AlignedBuffer, SaysHowMuchIsOnHugePagesAndNeverMoreThanItHas) {
  ASSERT_OK_AND_ASSIGN(AlignedBuffer buffer, AlignedBuffer::Allocate(4 * kHugePageBytes));
  for (size_t at = 0; at < buffer.size_bytes(); at += kPageBytes) buffer.bytes()[at] = std::byte{1};
  // Whether the kernel grants huge pages is its own business.
  EXPECT_LE(buffer.HugePageBackedBytes(), buffer.size_bytes());
  EXPECT_EQ(buffer.HugePageBackedBytes() % kHugePageBytes, 0u);
}

TEST(AlignedBuffer, NothingIsSomethingToo) {
  ASSERT_OK_AND_ASSIGN(const AlignedBuffer buffer, AlignedBuffer::Allocate(0));
  EXPECT_TRUE(buffer.bytes().empty());
  EXPECT_EQ(buffer.HugePageBackedBytes(), 0u);
}

TEST(AlignedBuffer, MovesItsMemory) {
  ASSERT_OK_AND_ASSIGN(AlignedBuffer from, AlignedBuffer::Allocate(4096));
  from.bytes()[7] = std::byte{9};
  const uintptr_t address = Address(from);
  AlignedBuffer to = std::move(from);
  EXPECT_EQ(Address(to), address);
  EXPECT_EQ(to.bytes()[7], std::byte{9});
  ASSERT_OK_AND_ASSIGN(AlignedBuffer other, AlignedBuffer::Allocate(8192));
  other = std::move(to);
  EXPECT_EQ(Address(other), address);
  EXPECT_EQ(other.size_bytes(), 4096u);
}

TEST(AlignedBuffer, RefusesWhatNoMachineHas) {
  EXPECT_TRUE(
      FailsWith(AlignedBuffer::Allocate(UINT64_MAX).status(), StatusCode::kInvalidArgument));
#ifndef __SANITIZE_ADDRESS__  // whose mmap reports it instead of failing
  EXPECT_TRUE(FailsWith(AlignedBuffer::Allocate(uint64_t{1} << 47).status(),
                        StatusCode::kOutOfSpace, "map "));
#endif
}

}  // namespace
}  // namespace kvbed
