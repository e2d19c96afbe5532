// Which slots of a slab file are in use, which can be taken, and which are still being read.
// It doesn't know records or files. Not thread-safe; its owner locks.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace kvbed {

class SlotMap {
 public:
  // The file holds `slots` now. Never shrinks.
  void Grow(uint64_t slots);
  bool IsUsed(uint64_t slot) const;
  // For building the map from manifests, before the first Grow. The slots may lie beyond the end of
  // a file that was cut.
  void MarkUsed(uint64_t slot);

  // The lowest free slot, now used; nullopt when the file has none.
  std::optional<uint64_t> Take();
  // The slot can be taken again, once no pin is on it.
  void Free(uint64_t slot);

  // Keeps a slot from being taken again while it is read.
  void Pin(uint64_t slot);
  void Unpin(uint64_t slot);

  // While manifests can't be read, their slots can't be told from free ones: slots below `slot`
  // are not handed out, what is freed there neither.
  void WithholdBelow(uint64_t slot);
  void StopWithholding();

  uint64_t slots() const { return slots_.size(); }
  uint64_t free_slots() const { return free_.size(); }

 private:
  struct Slot {
    uint32_t pins = 0;
    bool used = false;
    bool freed = false;  // used until the last pin goes
  };

  Slot& At(uint64_t slot);
  void MakeFree(uint64_t slot);

  std::vector<Slot> slots_;
  std::unordered_map<uint64_t, Slot> beyond_;  // used slots that the file doesn't reach
  std::vector<uint64_t> free_;                 // a heap, lowest first
  std::vector<uint64_t> withheld_;
  uint64_t withheld_below_ = 0;
};

}  // namespace kvbed
