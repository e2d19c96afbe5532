// Malformed models cost no more memory than their size and a few megabytes: no count from a file is
// trusted before it is checked. All allocations of this program are counted.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/model/model_files.h"
#include "tests/engine/golden_model.h"
#include "tests/engine/tiny_gguf.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

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
namespace {

constexpr uint64_t kAllowedBytes = 4 << 20;

// The most that was allocated at once while opening, beyond what was before.
uint64_t PeakOfOpening(const std::string& path) {
  const uint64_t before = live_bytes;
  peak_bytes = before;
  (void)OpenModel(path);
  return peak_bytes - before;
}

TEST(MalformedMemory, StaysSmall) {
  const auto manifest = ReadGoldenModelJson("malformed/manifest.json");
  for (const auto& test : manifest["cases"])
    EXPECT_LT(PeakOfOpening(GoldenModelPath("malformed/" + test["path"].get<std::string>())),
              kAllowedBytes)
        << test["name"];
}

TEST(MalformedMemory, StaysSmallForHugeCounts) {
  const TempDir temp;
  const auto peak = [&](const std::function<void(TinyGguf&)>& change) {
    TinyGguf model;
    change(model);
    WriteFileBytes(temp / "m.gguf", model.File());
    return PeakOfOpening(temp / "m.gguf");
  };
  EXPECT_LT(peak([](auto& m) { m.SetU32("llama.block_count", 4096); }), kAllowedBytes);
  EXPECT_LT(peak([](auto& m) { m.SetU32("llama.vocab_size", UINT32_MAX); }), kAllowedBytes);
  EXPECT_LT(peak([](auto& m) { m.SetU32("general.alignment", 1u << 31); }), kAllowedBytes);
  EXPECT_LT(peak([](auto& m) { m.writer.metadata_count = 1 << 20; }), kAllowedBytes);
  EXPECT_LT(peak([](auto& m) { m.writer.tensor_count = 1 << 20; }), kAllowedBytes);
}

TEST(MalformedMemory, TheCounterCounts) {
  const uint64_t before = live_bytes;
  peak_bytes = before;
  const auto memory = std::make_unique<std::vector<char>>(2 * kAllowedBytes);
  EXPECT_GT(peak_bytes - before, kAllowedBytes);
}

}  // namespace
}  // namespace kvbed
