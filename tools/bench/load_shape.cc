#include "tools/bench/load_shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvbed {

uint64_t LoadShape::parts() const {
  uint64_t count = 0;
  for (const auto& round : rounds) count += round.size();
  return count;
}

uint64_t LoadShape::pool_records(const KvGeometry& geometry) const {
  uint64_t most = 0;
  for (const auto& round : rounds) {
    uint64_t records = 0;
    for (const LoadPart& part : round) records += geometry.BlocksFor(part.tokens);
    most = std::max(most, records);
  }
  return most;
}

Result<LoadShape> ShapeLoad(const KvGeometry& geometry, uint64_t ctx_tokens, uint32_t sequences,
                            uint32_t numjobs, uint64_t pool_records) {
  LoadShape shape{.sequences = sequences, .numjobs = numjobs, .rounds = {}};
  if (pool_records < shape.workers()) {
    return Status::InvalidArgument(
        fmt::format("the pool has {} records and {} queues need one each: give more --pool-bytes "
                    "or fewer queues",
                    pool_records, shape.workers()));
  }
  const uint64_t blocks = geometry.BlocksFor(ctx_tokens);
  const uint64_t blocks_of_round = std::min(blocks, pool_records / sequences);
  for (uint64_t first = 0; first < blocks; first += blocks_of_round) {
    const uint64_t count = std::min(blocks_of_round, blocks - first);
    std::vector<LoadPart> round;
    for (uint32_t sequence = 0; sequence < sequences; ++sequence) {
      for (uint64_t job = 0; job < numjobs; ++job) {
        const uint64_t begin = (first + count * job / numjobs) * geometry.block_tokens;
        const uint64_t end = (first + count * (job + 1) / numjobs) * geometry.block_tokens;
        if (begin < end) round.push_back({sequence, std::min(end, ctx_tokens) - begin});
      }
    }
    shape.rounds.push_back(std::move(round));
  }
  return shape;
}

Result<LoadShape> ShapeCell(const BenchCell& cell) {
  const uint64_t needed = cell.blocks();
  const uint64_t given = cell.pool_bytes ? *cell.pool_bytes / cell.geometry.record_bytes() : needed;
  return ShapeLoad(cell.geometry, cell.ctx_tokens, cell.streams(), cell.numjobs,
                   std::min(needed, given));
}

}  // namespace kvbed
