#include "offload/aligned_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>
#include <utility>

namespace kvbed {
namespace {

// "7f12a000-7f13b000 rw-p ..." starts a mapping in smaps; nullopt for the lines below it.
std::optional<std::pair<uint64_t, uint64_t>> ParseMappingRange(std::string_view line) {
  uint64_t begin = 0, end = 0;
  const char* stop = line.data() + line.size();
  auto first = std::from_chars(line.data(), stop, begin, 16);
  if (first.ec != std::errc() || first.ptr == stop || *first.ptr != '-') return std::nullopt;
  auto second = std::from_chars(first.ptr + 1, stop, end, 16);
  if (second.ec != std::errc() || second.ptr == stop || *second.ptr != ' ') return std::nullopt;
  return std::pair{begin, end};
}

}  // namespace

Result<AlignedBuffer> AlignedBuffer::Allocate(uint64_t size_bytes) {
  AlignedBuffer buffer;
  if (size_bytes == 0) return buffer;
  if (size_bytes > uint64_t{1} << 47) {
    return Status::InvalidArgument(
        fmt::format("{} bytes of memory are beyond any address space", size_bytes));
  }
  const bool huge = size_bytes >= kHugePageBytes;
  const uint64_t alignment = huge ? kHugePageBytes : kPageBytes;
  buffer.size_bytes_ = RoundUp(size_bytes, kPageBytes);
  buffer.mapping_bytes_ = RoundUp(buffer.size_bytes_, alignment) + (huge ? alignment : 0);
  void* mapping = ::mmap(nullptr, buffer.mapping_bytes_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    const int error = errno;
    const uint64_t wanted_bytes = std::exchange(buffer.mapping_bytes_, 0);
    return Status::OutOfSpace(fmt::format("map {} bytes of memory: {}", wanted_bytes,
                                          StatusFromErrno(error, "mmap").message()));
  }
  buffer.mapping_ = mapping;
  buffer.data_ =
      reinterpret_cast<std::byte*>(RoundUp(reinterpret_cast<uintptr_t>(mapping), alignment));
  if (huge) ::madvise(buffer.data_, RoundUp(buffer.size_bytes_, kHugePageBytes), MADV_HUGEPAGE);
  return buffer;
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  if (this == &other) return *this;
  Release();
  data_ = std::exchange(other.data_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  mapping_ = std::exchange(other.mapping_, nullptr);
  mapping_bytes_ = std::exchange(other.mapping_bytes_, 0);
  return *this;
}

AlignedBuffer::~AlignedBuffer() { Release(); }

void AlignedBuffer::Release() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_bytes_);
  mapping_ = nullptr;
}

uint64_t AlignedBuffer::HugePageBackedBytes() const {
  const auto begin = reinterpret_cast<uintptr_t>(data_);
  const uint64_t end = begin + size_bytes_;
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  uint64_t bytes = 0;
  while (std::getline(smaps, line)) {
    if (const auto range = ParseMappingRange(line)) {
      // The kernel merges neighbouring anonymous mappings, so an overlap is what there is to go by.
      inside = range->first < end && range->second > begin;
    } else if (inside && line.starts_with("AnonHugePages:")) {
      uint64_t kib = 0;
      const size_t digits = line.find_first_of("0123456789");
      if (digits != std::string::npos) {
        std::from_chars(line.data() + digits, line.data() + line.size(), kib);
      }
      bytes += kib * 1024;
    }
  }
  return std::min(bytes, size_bytes_);
}

}  // namespace kvbed
