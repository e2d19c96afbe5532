// Which snapshot of a working set is written and which restored next: in seeded order over all of
// them, and never the newest. It moves nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace kvbed {

struct WorkingSetTurn {
  uint64_t write = 0;  // this one is replaced by a new one,
  uint64_t read = 0;   // and then that one is restored
  bool operator==(const WorkingSetTurn&) const = default;
};

class WorkingSet {
 public:
  // Of one snapshot: it is written and restored each time. Of more, all but the last are in the
  // store before the first turn, which writes that one; each later turn replaces what the turn
  // before restored, so that the set keeps its size and what is restored is old.
  WorkingSet(uint64_t snapshots, uint64_t seed);

  WorkingSetTurn Next();
  // The next one to restore when nothing was written since.
  uint64_t NextRead();

 private:
  uint64_t NextButNewest();

  const uint64_t snapshots_;
  uint64_t seed_;
  uint64_t to_write_;  // in the next turn
  uint64_t newest_;
  std::vector<uint64_t> order_;
  uint64_t at_ = 0;
};

}  // namespace kvbed
