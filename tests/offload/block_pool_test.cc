#include "offload/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "tests/offload/sample_records.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

constexpr auto kZeroed = BlockPool::Contents::kZeroed;
constexpr auto kAsItIs = BlockPool::Contents::kAsItIs;

std::unique_ptr<BlockPool> MakePool(uint32_t records) {
  return BlockPool::Create(TinyGeometry(), records).value();
}

TEST(BlockPool, HandsOutEachRecordOnceAndThenSaysWhatHelps) {
  const auto pool = MakePool(3);
  std::set<uint32_t> seen;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const uint32_t record, pool->Allocate(kZeroed));
    EXPECT_TRUE(seen.insert(record).second);
  }
  EXPECT_EQ(pool->free_records(), 0u);
  EXPECT_TRUE(
      FailsWith(pool->Allocate(kZeroed).status(), StatusCode::kOutOfSpace, "all 3 records"));
  EXPECT_TRUE(FailsWith(pool->Allocate(kZeroed).status(), StatusCode::kOutOfSpace, "--pool-bytes"));
  pool->Release(1);
  EXPECT_EQ(*pool->Allocate(kZeroed), 1u);
}

TEST(BlockPool, RecordsAreAlignedAndDoNotOverlap) {
  const auto pool = MakePool(5);
  for (uint32_t i = 0; i < 5; ++i) {
    const MutableBytes record = pool->record(i);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(record.data()) % kPageBytes, 0u);
    EXPECT_EQ(record.size(), TinyGeometry().record_bytes());
    EXPECT_EQ(record.data(), pool->memory().data() + i * record.size());
    EXPECT_EQ(pool->payload(i).data(), record.data() + kPageBytes);
    EXPECT_EQ(pool->payload(i).size(), TinyGeometry().payload_bytes());
  }
}

TEST(BlockPool, ARecordIsZeroedWhenItIsAllocatedSo) {
  const auto pool = MakePool(1);
  pool->PoisonAll();
  EXPECT_TRUE(pool->IsPoisoned(0));
  ASSERT_OK(pool->Allocate(kAsItIs));
  EXPECT_TRUE(pool->IsPoisoned(0));
  pool->Release(0);
  ASSERT_OK(pool->Allocate(kZeroed));
  EXPECT_TRUE(AllZero(pool->record(0)));
  EXPECT_FALSE(pool->IsPoisoned(0));
}

TEST(BlockPool, PoisonIsAllOrNotPoison) {
  const auto pool = MakePool(1);
  pool->PoisonAll();
  pool->record(0).back() = std::byte{0xfe};
  EXPECT_FALSE(pool->IsPoisoned(0));
}

TEST(BlockPool, TheLastReferenceFreesARecord) {
  const auto pool = MakePool(1);
  ASSERT_OK_AND_ASSIGN(const uint32_t record, pool->Allocate(kZeroed));
  pool->AddReference(record);
  pool->Release(record);
  EXPECT_EQ(pool->free_records(), 0u);
  pool->Release(record);
  EXPECT_EQ(pool->free_records(), 1u);
}

TEST(BlockPool, RefusesWhatCanHoldNothing) {
  EXPECT_TRUE(
      FailsWith(BlockPool::Create(TinyGeometry(), 0).status(), StatusCode::kInvalidArgument));
  EXPECT_TRUE(FailsWith(BlockPool::Create(KvGeometry{}, 1).status(), StatusCode::kInvalidArgument));
  KvGeometry huge = {.layers = 128, .kv_heads = 64, .head_dim = 128, .block_tokens = 128};
  ASSERT_OK(huge.Validate());
  EXPECT_FALSE(BlockPool::Create(huge, UINT32_MAX).ok());
}

TEST(BlockPool, ThreadsShareIt) {
  const auto pool = MakePool(8);
  std::vector<std::atomic<int>> owners(8);
  std::atomic<int> clashes{0};
  const auto work = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<uint32_t> mine;
    for (int i = 0; i < 2000; ++i) {
      if (mine.size() < 3 && random() % 2) {
        if (const auto record = pool->Allocate(kZeroed); record.ok()) {
          clashes += owners[*record]++ != 0;
          pool->payload(*record)[0] = std::byte{1};
          mine.push_back(*record);
        }
      } else if (!mine.empty()) {
        --owners[mine.back()];
        pool->Release(mine.back());
        mine.pop_back();
      }
    }
    for (uint32_t record : mine) {
      --owners[record];
      pool->Release(record);
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(pool->free_records(), 8u);
}

TEST(BlockPoolDeathTest, WrongUseIsAProgrammingError) {
  const auto pool = MakePool(2);
  EXPECT_DEATH(pool->Release(0), "check failed");
  EXPECT_DEATH(pool->AddReference(0), "check failed");
  EXPECT_DEATH(pool->record(2), "check failed");
  ASSERT_OK(pool->Allocate(kZeroed));
  EXPECT_DEATH(pool->PoisonAll(), "check failed");
}

}  // namespace
}  // namespace kvbed
