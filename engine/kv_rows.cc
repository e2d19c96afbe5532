#include "engine/kv_rows.h"

#include <algorithm>
#include <cstring>

#include "engine/parallel_for.h"
#include "offload/check.h"

namespace kvbed {
namespace {

constexpr KvPart kParts[] = {KvPart::kK, KvPart::kV};

// Positions that lie in one block.
struct Run {
  uint64_t block = 0;
  uint64_t row = 0;    // of the block
  uint64_t first = 0;  // position
  uint64_t count = 0;
};

// Calls visit(Run) for each block that holds a part of [first, first + count), in order.
template <class Visit>
void ForEachRun(const KvGeometry& geometry, uint64_t first, uint64_t count, const Visit& visit) {
  const uint64_t end = first + count;
  while (first < end) {
    Run run;
    run.block = first / geometry.block_tokens;
    run.row = first % geometry.block_tokens;
    run.first = first;
    run.count = std::min(geometry.block_tokens - run.row, end - first);
    visit(run);
    first += run.count;
  }
}

}  // namespace

void WriteKvRows(Sequence& sequence, uint32_t layer, KvPart part, uint64_t first, uint64_t count,
                 Bytes rows) {
  const KvGeometry& geometry = sequence.pool().geometry();
  const uint64_t row_bytes = geometry.head_dim * geometry.element_bytes();
  KVBED_CHECK(rows.size() == geometry.kv_heads * count * row_bytes);
  KVBED_CHECK(geometry.BlocksFor(first + count) <= sequence.block_table().size());
  ForEachRun(geometry, first, count, [&](const Run& run) {
    const MutableBytes payload = sequence.payload(run.block);
    for (uint32_t head = 0; head < geometry.kv_heads; ++head) {
      std::memcpy(payload.data() + geometry.HeadOffset(layer, part, head) + run.row * row_bytes,
                  rows.data() + (head * count + run.first - first) * row_bytes,
                  run.count * row_bytes);
    }
  });
}

void ReadKvRows(Sequence& sequence, uint32_t layer, uint64_t tokens, MutableBytes k, MutableBytes v,
                uint32_t threads) {
  const KvGeometry& geometry = sequence.pool().geometry();
  const uint64_t row_bytes = geometry.head_dim * geometry.element_bytes();
  const uint64_t dense_bytes = geometry.kv_heads * tokens * row_bytes;
  KVBED_CHECK(k.size() == dense_bytes && v.size() == dense_bytes);
  KVBED_CHECK(geometry.BlocksFor(tokens) <= sequence.block_table().size());

  // A record's slice of one layer is contiguous, so the blocks are the outer loop.
  const auto copy = [&](uint64_t first, uint64_t count) {
    ForEachRun(geometry, first, count, [&](const Run& run) {
      const MutableBytes payload = sequence.payload(run.block);
      for (KvPart part : kParts) {
        std::byte* const out = part == KvPart::kK ? k.data() : v.data();
        for (uint32_t head = 0; head < geometry.kv_heads; ++head) {
          std::memcpy(out + (head * tokens + run.first) * row_bytes,
                      payload.data() + geometry.HeadOffset(layer, part, head) + run.row * row_bytes,
                      run.count * row_bytes);
        }
      }
    });
  };

  // A thread costs tens of microseconds, in which one core copies some 100 KiB.
  constexpr uint64_t kParallelBytes = uint64_t{4} << 20;
  if (threads <= 1 || 2 * dense_bytes < kParallelBytes) return copy(0, tokens);
  const uint64_t piece_tokens = (tokens + threads - 1) / threads;
  ParallelFor(threads, threads, [&](uint64_t piece) {
    const uint64_t first = std::min(piece * piece_tokens, tokens);
    copy(first, std::min(piece_tokens, tokens - first));
  });
}

void ClearKvRows(Sequence& sequence, uint64_t first, uint64_t count) {
  const KvGeometry& geometry = sequence.pool().geometry();
  const uint64_t row_bytes = geometry.head_dim * geometry.element_bytes();
  KVBED_CHECK(geometry.BlocksFor(first + count) <= sequence.block_table().size());
  ForEachRun(geometry, first, count, [&](const Run& run) {
    const MutableBytes payload = sequence.payload(run.block);
    for (uint32_t layer = 0; layer < geometry.layers; ++layer) {
      for (KvPart part : kParts) {
        for (uint32_t head = 0; head < geometry.kv_heads; ++head) {
          std::memset(payload.data() + geometry.HeadOffset(layer, part, head) + run.row * row_bytes,
                      0, run.count * row_bytes);
        }
      }
    }
  });
}

}  // namespace kvbed
