#include "tools/bench/working_set.h"

#include "offload/check.h"
#include "tools/bench/seeded_order.h"

namespace kvbed {

WorkingSet::WorkingSet(uint64_t snapshots, uint64_t seed)
    : snapshots_(snapshots), seed_(seed), to_write_(snapshots - 1), newest_(snapshots - 1) {
  KVBED_CHECK(snapshots > 0);
}

// It is passed over when its turn comes at once after it was written.
uint64_t WorkingSet::NextButNewest() {
  uint64_t read = newest_;
  do {
    if (at_ == order_.size()) {
      order_ = SeededOrder(snapshots_, seed_++);
      at_ = 0;
    }
    read = order_[at_++];
  } while (snapshots_ > 1 && read == newest_);
  return read;
}

WorkingSetTurn WorkingSet::Next() {
  newest_ = to_write_;
  to_write_ = NextButNewest();
  return {newest_, to_write_};
}

uint64_t WorkingSet::NextRead() { return NextButNewest(); }

}  // namespace kvbed
