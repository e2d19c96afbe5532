// Snapshots that come and go leave nothing in memory. All allocations of this program are counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "backends/open_store.h"
#include "tests/backends/store_testing.h"
#include "tests/support/counted_allocations.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

constexpr uint64_t kRecord = 65'536;
constexpr uint64_t kBlocks = 4;
constexpr uint64_t kCycles = 60;
constexpr uint64_t kAllowedBytes = 1 << 20;
static_assert(kAllowedBytes * 8 < kCycles * kBlocks * kRecord, "what one cycle moves would show");

// The fewest bytes that are allocated within a second: what a thread of RocksDB's works with goes
// when it is done.
uint64_t SettledBytes() {
  uint64_t least = live_bytes;
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    least = std::min<uint64_t>(least, live_bytes);
  }
  return least;
}

// The bytes that are allocated after `cycles` cycles of snapshot, restore and removal.
uint64_t BytesAfter(BlockStore& store, uint64_t first, uint64_t cycles) {
  for (uint64_t sequence = first; sequence < first + cycles; ++sequence) {
    const Manifest manifest = MakeManifest("s", kRecord, kBlocks, sequence);
    EXPECT_OK(TakeSnapshot(store, manifest));
    EXPECT_TRUE(IsWhole(store, manifest));
    EXPECT_OK(store.RemoveManifest("s"));
  }
  return SettledBytes();
}

class StoreMemory : public testing::TestWithParam<const char*> {};

TEST_P(StoreMemory, DoesNotGrowWithTheNumberOfSnapshots) {
  const TempDir folder;
  std::string spec = GetParam();
  if (const size_t at = spec.find("{}"); at != spec.npos) spec.replace(at, 2, folder / "store");
  ASSERT_OK_AND_ASSIGN(const auto store,
                       OpenStore(ParseStoreSpec(spec).value(), {.access = StoreAccess::kCreate}));
  const uint64_t early = BytesAfter(*store, 1, kCycles / 3);
  const uint64_t late = BytesAfter(*store, 1000, kCycles);
  EXPECT_LE(late, early + kAllowedBytes);
}

constexpr const char* kSpecs[] = {
    "slab:{}?direct=off&sync=none", "files:{}?direct=off&sync=none",      "memory:",
#ifdef KVBED_HAS_ROCKSDB
    "rocksdb:{}?direct=off",        "rocksdb:{}?layout=index&direct=off",
#endif
};
INSTANTIATE_TEST_SUITE_P(All, StoreMemory, testing::ValuesIn(kSpecs), [](const auto& one) {
  std::string name;
  for (const char c : std::string_view(one.param)) name += std::isalnum(c) ? c : '_';
  return name;
});

// The control: what is kept shows.
TEST(StoreMemoryCounter, SeesSnapshotsThatStay) {
  const auto store =
      OpenStore(ParseStoreSpec("memory:").value(), {.access = StoreAccess::kCreate}).value();
  const uint64_t before = live_bytes;
  for (uint64_t sequence = 1; sequence <= 40; ++sequence) {
    ASSERT_OK(TakeSnapshot(
        *store, MakeManifest("s" + std::to_string(sequence), kRecord, kBlocks, sequence)));
  }
  EXPECT_GT(live_bytes, before + kAllowedBytes);
}

}  // namespace
}  // namespace kvbed
