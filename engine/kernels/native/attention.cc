#include "engine/kernels/native/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvbed {
namespace {

// Lines of a tile: enough that packing a chunk of K and V is little beside multiplying with it.
constexpr uint32_t kTileLines = 96;

}  // namespace

NativeAttention::NativeAttention(const KernelTable& table, const ModelConfig& config,
                                 ThreadTeam& team)
    : table_(table),
      config_(config),
      team_(team),
      tile_rows_max_(std::max(1u, kTileLines / group())),
      scratch_(team.size()) {
  const uint64_t element = table.element_bytes();
  const uint64_t lines = uint64_t{tile_rows_max_} * group();
  const uint64_t head = Padded(config.head_dim);
  for (Scratch& scratch : scratch_) {
    scratch.queries.resize(lines * head * element);
    scratch.keys.resize(head * kChunkTokens * element);
    scratch.values.resize(uint64_t{columns()} * kChunkTokens * element);
    scratch.scores.resize(lines * kChunkTokens);
    scratch.weights.resize(lines * kChunkTokens * element);
    scratch.sums.resize(lines);
    scratch.acc.resize(lines * columns());
    scratch.state.resize(lines);
    scratch.state_acc.resize(lines * columns());
    scratch.pointers.resize(kChunkTokens);
    scratch.rounded.resize(columns() * element);
  }
}

uint32_t NativeAttention::Visible(const NativeRow& row, uint64_t chunk) {
  const uint64_t first = chunk * kChunkTokens, end = row.position + 1;
  return end <= first ? 0 : static_cast<uint32_t>(std::min<uint64_t>(kChunkTokens, end - first));
}

void NativeAttention::TakeTiles(std::span<const NativeRow> rows) {
  tiles_.clear();
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const bool goes_on = i > 0 && tiles_.back().rows < tile_rows_max_ &&
                         rows[i].sequence == rows[i - 1].sequence &&
                         rows[i].position == rows[i - 1].position + 1;
    if (!goes_on) tiles_.push_back({.first_row = i, .rows = 0});
    ++tiles_.back().rows;
  }
}

uint64_t NativeAttention::ChunksOf(const Call& call, const Tile& tile) const {
  return call.rows[tile.first_row + tile.rows - 1].position / kChunkTokens + 1;
}

void NativeAttention::GatherQueries(const Call& call, const Tile& tile, uint32_t kv_head,
                                    Scratch& scratch) const {
  const uint64_t element = table_.element_bytes();
  const uint64_t line_bytes = Padded(config_.head_dim) * element;
  const uint64_t head_bytes = config_.head_dim * element;
  std::byte* to = scratch.queries.data();
  for (uint32_t r = 0; r < tile.rows; ++r) {
    const std::byte* from = call.queries + (tile.first_row + r) * call.query_stride * element +
                            kv_head * group() * head_bytes;
    for (uint32_t g = 0; g < group(); ++g, from += head_bytes, to += line_bytes) {
      std::memcpy(to, from, head_bytes);
    }
  }
}

// The rows of K or V of the positions [first, first + tokens).
void NativeAttention::PointAt(const Call& call, const Tile& tile, uint32_t kv_head, KvPart part,
                              uint64_t first, uint32_t tokens, Scratch& scratch) const {
  Sequence& sequence = *call.rows[tile.first_row].sequence;
  const KvGeometry& geometry = sequence.pool().geometry();
  const uint64_t row_bytes = config_.head_dim * geometry.element_bytes();
  const uint64_t offset = geometry.HeadOffset(call.layer, part, kv_head);
  uint64_t block = first / geometry.block_tokens, row = first % geometry.block_tokens;
  for (uint32_t i = 0; i < tokens; ++block, row = 0) {
    const std::byte* const rows = sequence.payload(block).data() + offset;
    for (; row < geometry.block_tokens && i < tokens; ++row, ++i) {
      scratch.pointers[i] = rows + row * row_bytes;
    }
  }
}

// scores = q * K^T; weights = softmax; acc = weights * V, for every line of the tile.
void NativeAttention::Chunk(const Call& call, const Tile& tile, uint32_t kv_head, uint64_t chunk,
                            Scratch& scratch) const {
  const uint64_t first = chunk * kChunkTokens;
  // The last row sees most; what is hidden from an earlier one has the weight 0.
  const uint32_t tokens = Visible(call.rows[tile.first_row + tile.rows - 1], chunk);
  const uint32_t lines = Lines(tile), head_dim = config_.head_dim;

  PointAt(call, tile, kv_head, KvPart::kK, first, tokens, scratch);
  table_.pack_keys(scratch.pointers.data(), tokens, head_dim, scratch.keys.data());
  table_.multiply(table_, {.a = scratch.queries.data(),
                           .a_stride = Padded(head_dim),
                           .rows = lines,
                           .columns = Padded(head_dim),
                           .b = scratch.keys.data(),
                           .tile = 0,
                           .tiles = TilesFor(tokens),
                           .into = Into::kFloats,
                           .out = scratch.scores.data(),
                           .out_stride = kChunkTokens});
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  const uint64_t line_bytes = uint64_t{kChunkTokens} * table_.element_bytes();
  for (uint32_t line = 0; line < lines; ++line) {
    const uint32_t visible = Visible(call.rows[tile.first_row + line / group()], chunk);
    std::byte* const weights = scratch.weights.data() + line * line_bytes;
    if (visible == 0) {
      std::memset(weights, 0, Padded(tokens) * table_.element_bytes());
      continue;
    }
    scratch.sums[line] = table_.softmax(scratch.scores.data() + line * kChunkTokens, visible,
                                        Padded(tokens), scale, weights);
  }
  PointAt(call, tile, kv_head, KvPart::kV, first, tokens, scratch);
  table_.pack_values(scratch.pointers.data(), tokens, head_dim, scratch.values.data());
  table_.multiply(table_, {.a = scratch.weights.data(),
                           .a_stride = kChunkTokens,
                           .rows = lines,
                           .columns = Padded(tokens),
                           .b = scratch.values.data(),
                           .tile = 0,
                           .tiles = TilesFor(head_dim),
                           .into = Into::kFloats,
                           .out = scratch.acc.data(),
                           .out_stride = columns()});
}

void NativeAttention::MergeChunk(const Call& call, const Tile& tile, uint64_t chunk,
                                 const ChunkSums* sums, const float* acc, Scratch& scratch) const {
  for (uint32_t line = 0; line < Lines(tile); ++line, acc += columns()) {
    if (Visible(call.rows[tile.first_row + line / group()], chunk) == 0) continue;
    float* const to = scratch.state_acc.data() + uint64_t{line} * columns();
    if (chunk == 0) {
      scratch.state[line] = sums[line];
      std::copy(acc, acc + columns(), to);
    } else {
      table_.merge(scratch.state[line], to, sums[line], acc, columns());
    }
  }
}

void NativeAttention::Finish(const Call& call, const Tile& tile, uint32_t kv_head,
                             Scratch& scratch) const {
  const uint64_t element = table_.element_bytes();
  const uint64_t head_bytes = config_.head_dim * element;
  std::byte* const rounded = scratch.rounded.data();
  for (uint32_t line = 0; line < Lines(tile); ++line) {
    table_.divide(scratch.state_acc.data() + uint64_t{line} * columns(), scratch.state[line].sum,
                  columns(), rounded);
    const uint64_t row = tile.first_row + line / group();
    const uint64_t query_head = kv_head * group() + line % group();
    std::memcpy(call.out + row * call.out_stride * element + query_head * head_bytes, rounded,
                head_bytes);
  }
}

// Many tiles: each goes through the whole context on one thread.
void NativeAttention::ByTile(const Call& call) {
  team_.ForEach(tiles_.size() * config_.kv_heads, [&](uint32_t thread, uint64_t unit) {
    // The last tiles see most: they go first.
    const Tile& tile = tiles_[tiles_.size() - 1 - unit / config_.kv_heads];
    const auto kv_head = static_cast<uint32_t>(unit % config_.kv_heads);
    Scratch& scratch = scratch_[thread];
    GatherQueries(call, tile, kv_head, scratch);
    const uint64_t chunks = ChunksOf(call, tile);
    for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
      Chunk(call, tile, kv_head, chunk, scratch);
      MergeChunk(call, tile, chunk, scratch.sums.data(), scratch.acc.data(), scratch);
    }
    Finish(call, tile, kv_head, scratch);
  });
}

// Few tiles: chunks of the context are shared out, and merged afterwards in the same order.
void NativeAttention::ByChunk(const Call& call) {
  parts_.clear();
  uint64_t lines = 0;
  for (uint32_t t = 0; t < tiles_.size(); ++t) {
    for (uint32_t kv_head = 0; kv_head < config_.kv_heads; ++kv_head) {
      for (uint64_t chunk = 0; chunk < ChunksOf(call, tiles_[t]); ++chunk) {
        parts_.push_back({.tile = t, .kv_head = kv_head, .chunk = chunk, .first_line = lines});
        lines += Lines(tiles_[t]);
      }
    }
  }
  if (part_sums_.size() < lines) part_sums_.resize(lines);
  if (part_acc_.size() < lines * columns()) part_acc_.resize(lines * columns());
  team_.ForEach(parts_.size(), [&](uint32_t thread, uint64_t unit) {
    const Part& part = parts_[unit];
    const Tile& tile = tiles_[part.tile];
    Scratch& scratch = scratch_[thread];
    GatherQueries(call, tile, part.kv_head, scratch);
    Chunk(call, tile, part.kv_head, part.chunk, scratch);
    std::copy_n(scratch.sums.begin(), Lines(tile), part_sums_.begin() + part.first_line);
    std::copy_n(scratch.acc.begin(), uint64_t{Lines(tile)} * columns(),
                part_acc_.begin() + part.first_line * columns());
  });
  Scratch& scratch = scratch_[0];
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const Tile& tile = tiles_[part.tile];
    MergeChunk(call, tile, part.chunk, part_sums_.data() + part.first_line,
               part_acc_.data() + part.first_line * columns(), scratch);
    const bool last = i + 1 == parts_.size() || parts_[i + 1].chunk == 0;
    if (last) Finish(call, tile, part.kv_head, scratch);
  }
}

void NativeAttention::Run(std::span<const NativeRow> rows, uint32_t layer, const void* queries,
                          uint64_t query_stride, void* out, uint64_t out_stride) {
  const Call call{.rows = rows,
                  .layer = layer,
                  .queries = static_cast<const std::byte*>(queries),
                  .query_stride = query_stride,
                  .out = static_cast<std::byte*>(out),
                  .out_stride = out_stride};
  TakeTiles(rows);
  if (tiles_.size() * config_.kv_heads >= 4 * team_.size()) {
    ByTile(call);
  } else {
    ByChunk(call);
  }
}

}  // namespace kvbed
