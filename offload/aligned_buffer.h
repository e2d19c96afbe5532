// Page-aligned memory for direct I/O, advised onto huge pages when it is large.
// It does not know what is kept in it, nor whether a ring has registered it.
#pragma once

#include <cstdint>

#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

// Anonymous memory, zeroed, whose start is aligned to 4 KiB, or to 2 MiB from 2 MiB on (then it
// is advised with MADV_HUGEPAGE: direct reads into huge pages run up to twice as fast as into
// 4 KiB pages). Move-only.
class AlignedBuffer {
 public:
  // Size is rounded up to whole pages. Out of space when the system refuses the memory.
  static Result<AlignedBuffer> Allocate(uint64_t size_bytes);

  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  MutableBytes bytes() { return {data_, size_bytes_}; }
  Bytes bytes() const { return {data_, size_bytes_}; }
  uint64_t size_bytes() const { return size_bytes_; }

  // Bytes of this buffer that the kernel backs with huge pages now (AnonHugePages of
  // /proc/self/smaps), 0 where that can't be read. Only touched pages count.
  uint64_t HugePageBackedBytes() const;

 private:
  void Release();

  std::byte* data_ = nullptr;  // start of the aligned part
  uint64_t size_bytes_ = 0;
  void* mapping_ = nullptr;  // what munmap takes
  uint64_t mapping_bytes_ = 0;
};

}  // namespace kvbed
