// Slots: taken lowest first, not while they are read, and not while it isn't known whose they are.
#include "backends/slot_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace kvbed {
namespace {

std::vector<uint64_t> TakeAll(SlotMap& slots) {
  std::vector<uint64_t> taken;
  while (const auto slot = slots.Take()) taken.push_back(*slot);
  return taken;
}

TEST(SlotMapTest, TheLowestFreeSlotIsTakenFirst) {
  SlotMap slots;
  EXPECT_FALSE(slots.Take());
  slots.Grow(4);
  EXPECT_EQ(TakeAll(slots), (std::vector<uint64_t>{0, 1, 2, 3}));
  slots.Free(2);
  slots.Free(0);
  slots.Grow(5);
  EXPECT_EQ(slots.free_slots(), 3u);
  EXPECT_EQ(TakeAll(slots), (std::vector<uint64_t>{0, 2, 4}));
}

TEST(SlotMapTest, APinnedSlotComesFreeWithItsLastPin) {
  SlotMap slots;
  slots.Grow(1);
  slots.Take();
  slots.Pin(0);
  slots.Pin(0);
  slots.Free(0);
  EXPECT_FALSE(slots.Take());
  slots.Unpin(0);
  EXPECT_FALSE(slots.Take());
  slots.Unpin(0);
  EXPECT_EQ(slots.Take(), 0u);
}

TEST(SlotMapTest, SlotsBeyondTheEndOfTheFileStayUsedWhenItGrowsOverThem) {
  SlotMap slots;
  slots.MarkUsed(0);
  slots.MarkUsed(5);
  slots.MarkUsed(9);
  slots.Grow(2);
  EXPECT_TRUE(slots.IsUsed(5) && slots.IsUsed(9) && !slots.IsUsed(4) && !slots.IsUsed(1));
  slots.Pin(5);
  slots.Free(5);
  slots.Free(9);
  slots.Grow(12);
  EXPECT_EQ(TakeAll(slots), (std::vector<uint64_t>{1, 2, 3, 4, 6, 7, 8, 9, 10, 11}));
  slots.Unpin(5);
  EXPECT_EQ(TakeAll(slots), std::vector<uint64_t>{5});
}

TEST(SlotMapTest, WithheldSlotsAreNotHandedOutUntilAsked) {
  SlotMap slots;
  slots.MarkUsed(1);
  slots.Grow(3);
  slots.WithholdBelow(3);
  EXPECT_FALSE(slots.Take());
  slots.Grow(4);
  slots.Free(1);
  EXPECT_EQ(TakeAll(slots), std::vector<uint64_t>{3});
  slots.Free(3);
  EXPECT_EQ(TakeAll(slots), std::vector<uint64_t>{3});
  slots.StopWithholding();
  EXPECT_EQ(TakeAll(slots), (std::vector<uint64_t>{0, 1, 2}));
}

TEST(SlotMapTest, NoSlotIsEverHandedOutTwice) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  SlotMap slots;
  std::set<uint64_t> used;
  std::vector<uint64_t> pinned;
  for (int step = 0; step < 20'000; ++step) {
    switch (random() % 5) {
      case 0:
      case 1:
        if (const auto slot = slots.Take()) {
          EXPECT_TRUE(used.insert(*slot).second);
          EXPECT_EQ(std::count(pinned.begin(), pinned.end(), *slot), 0);
        } else {
          slots.Grow(slots.slots() + 1 + random() % 4);
        }
        break;
      case 2:
        if (!used.empty()) {
          const auto slot = std::next(used.begin(), static_cast<long>(random() % used.size()));
          slots.Free(*slot);
          used.erase(slot);
        }
        break;
      case 3:
        if (!used.empty()) {
          pinned.push_back(*std::next(used.begin(), static_cast<long>(random() % used.size())));
          slots.Pin(pinned.back());
        }
        break;
      default:
        if (!pinned.empty()) {
          slots.Unpin(pinned.back());
          pinned.pop_back();
        }
    }
  }
  for (uint64_t slot : pinned) slots.Unpin(slot);
  EXPECT_EQ(slots.free_slots(), slots.slots() - used.size());
}

}  // namespace
}  // namespace kvbed
