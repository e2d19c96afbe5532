// How a context is moved: how many sequences at once, over how many queues each, and in how many
// rounds through a pool that doesn't hold it all. It knows no store and no time.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/kv_geometry.h"
#include "offload/status.h"
#include "tools/bench/measurement.h"

namespace kvbed {

// What one queue moves in one round: tokens of one sequence, as a snapshot of its own.
struct LoadPart {
  uint32_t sequence = 0;
  uint64_t tokens = 0;
  bool operator==(const LoadPart&) const = default;
};

struct LoadShape {
  uint32_t sequences = 1;
  uint32_t numjobs = 1;  // queues of each sequence
  // Rounds one after the other, each of at most sequences * numjobs parts that go at once.
  std::vector<std::vector<LoadPart>> rounds;

  uint32_t workers() const { return sequences * numjobs; }
  uint64_t parts() const;
  // The pool's records that the largest round needs.
  uint64_t pool_records(const KvGeometry& geometry) const;
};

// Blocks are never split. Each sequence has `ctx_tokens` tokens; its last part may end in a block
// that isn't full. Invalid argument when the pool has fewer records than there are queues.
Result<LoadShape> ShapeLoad(const KvGeometry& geometry, uint64_t ctx_tokens, uint32_t sequences,
                            uint32_t numjobs, uint64_t pool_records);
// A cell's, in a pool of its --pool-bytes or of all that it moves.
Result<LoadShape> ShapeCell(const BenchCell& cell);

}  // namespace kvbed
