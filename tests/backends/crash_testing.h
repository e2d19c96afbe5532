// What is left of a store after a crash, as expectations: verify/snapshot_oracle.h says which
// snapshots may be there, and whether every slot that none names is free.
#pragma once

#include <string>

#include "tests/backends/store_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "verify/snapshot_oracle.h"

namespace kvbed {

// The stores of these tests have room for so many small records and no more.
inline constexpr uint64_t kSlots = 16;

class Expected : public SnapshotOracle {
 public:
  void Check(BlockStore& store) { EXPECT_EQ(SnapshotOracle::Check(store).problem, ""); }
};

// Every slot that no snapshot names can be written, and nothing that is there suffers.
// A store whose files hold more than records has no room to the byte.
inline void CheckSpace(BlockStore& store, Expected& expected, bool to_the_byte = true) {
  EXPECT_EQ(CheckRoom(store, expected, {kSlots, kSmallRecord, to_the_byte}).problem, "");
}

}  // namespace kvbed
