// Counts what a whole program allocates with new: include it in one file of the program.
// It doesn't see malloc, mmap, nor stacks.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::atomic<uint64_t> live_bytes = 0, peak_bytes = 0;

void* AllocateOrNull(size_t size) noexcept {
  void* memory = std::malloc(size);
  if (memory == nullptr) return nullptr;
  const uint64_t live = live_bytes += malloc_usable_size(memory);
  if (live > peak_bytes) peak_bytes = live;
  return memory;
}

void* Allocate(size_t size) {
  void* memory = AllocateOrNull(size);
  return memory != nullptr ? memory : throw std::bad_alloc();
}

void Free(void* memory) noexcept {
  if (memory != nullptr) live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
// The C++ library calls these too, and what they give is freed by the deletes below.
void* operator new(size_t size, const std::nothrow_t&) noexcept { return AllocateOrNull(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return AllocateOrNull(size); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }

namespace kvbed {

// The most that was allocated at once while `run` ran, beyond what was before.
template <class Run>
uint64_t PeakBytesOf(Run run) {
  const uint64_t before = live_bytes;
  peak_bytes = before;
  run();
  return peak_bytes - before;
}

}  // namespace kvbed
