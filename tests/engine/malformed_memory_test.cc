// Malformed models cost no more memory than their size and a few megabytes: no count from a file is
// trusted before it is checked. All allocations of this program are counted.
#include <gtest/gtest.h>

#include "engine/model/model_files.h"
#include "tests/engine/golden_model.h"
#include "tests/engine/tiny_gguf.h"
#include "tests/support/counted_allocations.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

constexpr uint64_t kAllowedBytes = 4 << 20;

// The most that was allocated at once while opening, beyond what was before.
uint64_t PeakOfOpening(const std::string& path) {
  return PeakBytesOf([&] { (void)OpenModel(path); });
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
  EXPECT_GT(PeakBytesOf([] { const std::vector<char> memory(2 * kAllowedBytes); }), kAllowedBytes);
}

}  // namespace
}  // namespace kvbed
