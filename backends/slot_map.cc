#include "backends/slot_map.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "offload/check.h"

namespace kvbed {

void SlotMap::Grow(uint64_t slots) {
  for (uint64_t slot = slots_.size(); slot < slots; ++slot) {
    const auto beyond = beyond_.find(slot);
    if (beyond == beyond_.end()) {
      slots_.emplace_back();
      MakeFree(slot);
    } else {
      slots_.push_back(beyond->second);
      beyond_.erase(beyond);
    }
  }
}

bool SlotMap::IsUsed(uint64_t slot) const {
  return slot < slots_.size() ? slots_[slot].used : beyond_.contains(slot);
}

void SlotMap::MarkUsed(uint64_t slot) {
  KVBED_CHECK(slots_.empty());
  beyond_[slot].used = true;
}

std::optional<uint64_t> SlotMap::Take() {
  if (free_.empty()) return std::nullopt;
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  const uint64_t slot = free_.back();
  free_.pop_back();
  slots_[slot].used = true;
  return slot;
}

void SlotMap::Free(uint64_t slot) {
  Slot& state = At(slot);
  KVBED_CHECK(state.used && !state.freed);
  state.freed = true;
  if (state.pins == 0) MakeFree(slot);
}

void SlotMap::Pin(uint64_t slot) {
  Slot& state = At(slot);
  KVBED_CHECK(state.used && !state.freed);
  ++state.pins;
}

void SlotMap::Unpin(uint64_t slot) {
  Slot& state = At(slot);
  KVBED_CHECK(state.pins > 0);
  if (--state.pins == 0 && state.freed) MakeFree(slot);
}

void SlotMap::WithholdBelow(uint64_t slot) {
  withheld_below_ = slot;
  const auto first_withheld =
      std::partition(free_.begin(), free_.end(), [slot](uint64_t free) { return free >= slot; });
  withheld_.insert(withheld_.end(), first_withheld, free_.end());
  free_.erase(first_withheld, free_.end());
  std::make_heap(free_.begin(), free_.end(), std::greater<>());
}

void SlotMap::StopWithholding() {
  withheld_below_ = 0;
  for (uint64_t slot : std::exchange(withheld_, {})) MakeFree(slot);
}

SlotMap::Slot& SlotMap::At(uint64_t slot) {
  if (slot < slots_.size()) return slots_[slot];
  const auto beyond = beyond_.find(slot);
  KVBED_CHECK(beyond != beyond_.end());
  return beyond->second;
}

void SlotMap::MakeFree(uint64_t slot) {
  if (slot >= slots_.size()) {
    beyond_.erase(slot);  // free once the file grows over it
    return;
  }
  slots_[slot] = Slot{};
  if (slot < withheld_below_) {
    withheld_.push_back(slot);
    return;
  }
  free_.push_back(slot);
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
}

}  // namespace kvbed
