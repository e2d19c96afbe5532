// Attention of the native kernels: queries against the K and V that the pool's records hold, in
// place. The context is taken in chunks of kChunkTokens, always from position 0 on, and a row's
// chunks are merged in order: a row's result is the same bits whichever rows run with it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/native/kernel_table.h"
#include "engine/kernels/native/thread_team.h"
#include "engine/model/model_config.h"
#include "offload/sequence.h"

namespace kvbed {

// A row of a forward pass: one token of one sequence.
struct NativeRow {
  TokenId token = 0;
  Sequence* sequence = nullptr;
  uint64_t position = 0;
};

class NativeAttention {
 public:
  NativeAttention(const KernelTable& table, const ModelConfig& config, ThreadTeam& team);

  // queries: a row of heads * head_dim elements for each of `rows`, `query_stride` elements apart,
  // rotated; out: the same shape, `out_stride` apart. K and V of all rows are in the records.
  void Run(std::span<const NativeRow> rows, uint32_t layer, const void* queries,
           uint64_t query_stride, void* out, uint64_t out_stride);

 private:
  // Rows of one sequence at consecutive positions: they share K and V.
  struct Tile {
    uint32_t first_row = 0;
    uint32_t rows = 0;
  };
  // A chunk of the context for a KV head of a tile.
  struct Part {
    uint32_t tile = 0;
    uint32_t kv_head = 0;
    uint64_t chunk = 0;
    uint64_t first_line = 0;
  };
  // What one thread needs for a tile and a chunk; a line for each row and head of the group.
  struct Scratch {
    std::vector<std::byte> queries;    // [line][Padded(head_dim)] elements
    std::vector<std::byte> keys;       // tiles of tokens, where they are packed
    std::vector<std::byte> values;     // tiles of dims, likewise
    std::vector<float> scores;         // [line][kChunkTokens]
    std::vector<std::byte> weights;    // [line][kChunkTokens] elements
    std::vector<ChunkSums> sums;       // [line]
    std::vector<float> acc;            // [line][columns()]
    std::vector<ChunkSums> state;      // [line], of the chunks so far
    std::vector<float> state_acc;      // [line][columns()]
    std::vector<const void*> keys_at;  // rows of the chunk
    std::vector<const void*> values_at;
    // Rows of K and V that the thread comes to next, as they lie in memory, and how many of them
    // are being fetched.
    std::vector<const void*> ahead;
    size_t fetched = 0;
    std::vector<std::byte> rounded;  // [columns()] elements
  };
  struct Call {
    std::span<const NativeRow> rows;
    uint32_t layer = 0;
    const std::byte* queries = nullptr;
    uint64_t query_stride = 0;
    std::byte* out = nullptr;
    uint64_t out_stride = 0;
  };

  void TakeTiles(std::span<const NativeRow> rows);
  uint64_t ChunksOf(const Call& call, const Tile& tile) const;
  void GatherQueries(const Call& call, const Tile& tile, uint32_t kv_head, Scratch& scratch) const;
  uint32_t TokensOf(const Call& call, const Part& part) const;
  // Calls take(record's payload, first row, rows) for the blocks that hold a part's tokens.
  template <class Take>
  void ForEachBlock(const Call& call, const Part& part, const Take& take) const;
  // Where a part's rows are.
  void PointAt(const Call& call, const Part& part, KvPart kv, std::vector<const void*>& rows) const;
  // To a part's rows of `kv_heads` heads from its own on; null: to nothing.
  void LookAhead(const Call& call, const Part* part, uint32_t kv_heads, Scratch& scratch) const;
  // Of what is ahead, rows to be fetched while `tokens` are multiplied with.
  static std::span<const void* const> Ahead(uint32_t tokens, Scratch& scratch);
  void ScoreKeys(uint32_t lines, uint32_t tokens, Scratch& scratch) const;
  void WeighValues(uint32_t lines, uint32_t tokens, Scratch& scratch) const;
  void Chunk(const Call& call, const Part& part, Scratch& scratch) const;
  void MergeChunk(const Call& call, const Tile& tile, uint64_t chunk, const ChunkSums* sums,
                  const float* acc, Scratch& scratch) const;
  void Finish(const Call& call, const Tile& tile, uint32_t kv_head, Scratch& scratch) const;
  void ByTile(const Call& call);
  void ByChunk(const Call& call);

  uint32_t group() const { return config_.heads / config_.kv_heads; }
  // Products straight from the rows, without packing.
  bool takes_rows() const {
    return table_.score_keys != nullptr && config_.head_dim % kRowPad == 0;
  }
  uint32_t columns() const { return TilesFor(config_.head_dim) * kTileRows; }
  uint32_t Lines(const Tile& tile) const { return tile.rows * group(); }
  // Tokens that a row of the call may see of a chunk; 0 for a later one.
  static uint32_t Visible(const NativeRow& row, uint64_t chunk);

  const KernelTable& table_;
  const ModelConfig& config_;
  ThreadTeam& team_;
  uint32_t tile_rows_max_;
  std::vector<Scratch> scratch_;  // by thread
  std::vector<Tile> tiles_;
  // By chunk: what each tile, chunk and KV head gave, in that order.
  std::vector<Part> parts_;
  std::vector<ChunkSums> part_sums_;
  std::vector<float> part_acc_;
};

}  // namespace kvbed
