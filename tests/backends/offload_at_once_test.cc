// Offloads and restores that share a pool or a slow store: memory stays as long as it is used, and
// all of it comes back.
#include "offload/offloader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "backends/faulty_store.h"
#include "backends/memory_store.h"
#include "backends/open_store.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

constexpr KvGeometry kGeometry = {
    .layers = 2, .kv_heads = 1, .head_dim = 16, .dtype = DType::kBf16, .block_tokens = 16};

SequenceIdentity IdentityOf(uint64_t sequence) {
  return {.model_fingerprint = ModelDigests{}.Fingerprint(),
          .rope_identity = 5,
          .sequence_id = sequence};
}

class OffloadAtOnceTest : public testing::Test {
 protected:
  // Rows of `tokens` positions that hold `value`.
  static void Fill(Sequence& sequence, uint64_t tokens, std::byte value) {
    ASSERT_OK(sequence.Reserve(tokens));
    for (uint64_t block = 0; block < kGeometry.BlocksFor(tokens); ++block) {
      const MutableBytes payload = sequence.payload(block);
      std::fill(payload.begin(), payload.end(), value);
    }
    sequence.Advance(tokens);
  }
  static Status Take(BlockStore& store, Sequence& sequence, const std::string& name) {
    auto channel = store.OpenChannel({.iodepth = 4, .memory = {}});
    if (!channel.ok()) return channel.status();
    Manifest manifest;
    manifest.name = name;
    manifest.token_ids.resize(sequence.cached_tokens());
    return StatusOf(Offload(store, *channel, sequence, manifest, {}));
  }
  static Result<RestoreReport> Bring(BlockStore& store, Sequence& sequence,
                                     const std::string& name) {
    auto channel = store.OpenChannel({.iodepth = 4, .memory = {}});
    if (!channel.ok()) return channel.status();
    const auto manifest = store.ReadManifest(name);
    if (!manifest.ok()) return manifest.status();
    return Restore(store, *channel, *manifest, sequence, {});
  }
  static bool Holds(Sequence& sequence, std::byte value) {
    for (uint64_t block = 0; block < sequence.blocks(); ++block) {
      const Bytes payload = sequence.payload(block);
      if (!std::all_of(payload.begin(), payload.end(), [&](std::byte b) { return b == value; })) {
        return false;
      }
    }
    return true;
  }

  std::unique_ptr<BlockStore> Memory() {
    return OpenStore(ParseStoreSpec("memory:").value(), {.access = StoreAccess::kCreate}).value();
  }
};

// The records are free for others only when the store has answered for all of them.
TEST_F(OffloadAtOnceTest, ADelayedOffloadStoresTheBytesOfItsTimeThoughItsBlocksAreFilledAnew) {
  StoreFaults faults({.faults = {{.kind = FaultKind::kDelay,
                                  .target = FaultTarget::kWrite,
                                  .count = kForever,
                                  .amount = 2000}}});
  const auto store = MakeFaultyStore(Memory(), faults);
  const auto pool = BlockPool::Create(kGeometry, 4).value();
  {
    Sequence first(*pool, IdentityOf(1));
    Fill(first, 64, std::byte{0x11});
    ASSERT_OK(Take(*store, first, "first"));
  }
  Sequence second(*pool, IdentityOf(2));
  Fill(second, 64, std::byte{0x22});  // all records of the pool
  ASSERT_OK(Take(*store, second, "second"));
  EXPECT_EQ(faults.struck(), 8u);
  const auto other = BlockPool::Create(kGeometry, 8).value();
  Sequence first(*other, IdentityOf(1)), again(*other, IdentityOf(2));
  ASSERT_OK(Bring(*store, first, "first"));
  ASSERT_OK(Bring(*store, again, "second"));
  EXPECT_TRUE(Holds(first, std::byte{0x11}) && !Holds(first, std::byte{0x22}));
  EXPECT_TRUE(Holds(again, std::byte{0x22}));
}

TEST_F(OffloadAtOnceTest, RestoresThatCompeteForASmallPoolGiveEveryRecordBack) {
  const auto store = Memory();
  {
    const auto pool = BlockPool::Create(kGeometry, 2).value();
    Sequence sequence(*pool, IdentityOf(1));
    Fill(sequence, 32, std::byte{0x33});
    ASSERT_OK(Take(*store, sequence, "s"));
  }
  const auto pool = BlockPool::Create(kGeometry, 3).value();  // one restore and a half
  std::atomic<int> whole = 0, no_room = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        Sequence sequence(*pool, IdentityOf(1));
        const auto report = Bring(*store, sequence, "s");
        if (report.ok()) {
          EXPECT_TRUE(report->whole() && Holds(sequence, std::byte{0x33}));
          ++whole;
        } else {
          EXPECT_EQ(report.status().code(), StatusCode::kOutOfSpace);
          ++no_room;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(whole + no_room, 200);
  EXPECT_GT(whole, 0);
  EXPECT_EQ(pool->free_records(), 3u);
  Sequence last(*pool, IdentityOf(1));
  EXPECT_OK(last.Reserve(48));  // the capacity is all there
}

}  // namespace
}  // namespace kvbed
