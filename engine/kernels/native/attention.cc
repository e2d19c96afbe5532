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
    scratch.keys_at.resize(kChunkTokens);
    scratch.values_at.resize(kChunkTokens);
    scratch.ahead.reserve(uint64_t{2} * config.kv_heads * kChunkTokens);
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

uint32_t NativeAttention::TokensOf(const Call& call, const Part& part) const {
  const Tile& tile = tiles_[part.tile];
  // The last row sees most; what is hidden from an earlier one has the weight 0.
  return Visible(call.rows[tile.first_row + tile.rows - 1], part.chunk);
}

template <class Take>
void NativeAttention::ForEachBlock(const Call& call, const Part& part, const Take& take) const {
  Sequence& sequence = *call.rows[tiles_[part.tile].first_row].sequence;
  const uint32_t block_tokens = sequence.pool().geometry().block_tokens;
  uint64_t at = part.chunk * kChunkTokens;
  const uint64_t end = at + TokensOf(call, part);
  while (at < end) {
    const uint64_t block = at / block_tokens, first = at % block_tokens;
    const uint64_t rows = std::min(block_tokens - first, end - at);
    take(sequence.payload(block).data(), first, rows);
    at += rows;
  }
}

void NativeAttention::PointAt(const Call& call, const Part& part, KvPart kv,
                              std::vector<const void*>& rows) const {
  const KvGeometry& geometry = call.rows[tiles_[part.tile].first_row].sequence->pool().geometry();
  const uint64_t row_bytes = config_.head_dim * geometry.element_bytes();
  const uint64_t offset = geometry.HeadOffset(call.layer, kv, part.kv_head);
  const void** row = rows.data();
  ForEachBlock(call, part, [&](const std::byte* payload, uint64_t first, uint64_t count) {
    const std::byte* from = payload + offset + first * row_bytes;
    for (uint64_t i = 0; i < count; ++i, from += row_bytes) *row++ = from;
  });
}

void NativeAttention::LookAhead(const Call& call, const Part* part, uint32_t kv_heads,
                                Scratch& scratch) const {
  scratch.ahead.clear();
  scratch.fetched = 0;
  if (part == nullptr || !takes_rows()) return;
  const KvGeometry& geometry = call.rows[tiles_[part->tile].first_row].sequence->pool().geometry();
  const uint64_t row_bytes = config_.head_dim * geometry.element_bytes();
  ForEachBlock(call, *part, [&](const std::byte* payload, uint64_t first, uint64_t count) {
    for (const KvPart kv : {KvPart::kK, KvPart::kV}) {
      for (uint32_t i = 0; i < kv_heads; ++i) {
        const std::byte* from =
            payload + first * row_bytes + geometry.HeadOffset(call.layer, kv, part->kv_head + i);
        for (uint64_t k = 0; k < count; ++k, from += row_bytes) scratch.ahead.push_back(from);
      }
    }
  });
}

std::span<const void* const> NativeAttention::Ahead(uint32_t tokens, Scratch& scratch) {
  const size_t first = scratch.fetched;
  scratch.fetched = std::min(first + tokens, scratch.ahead.size());
  return std::span(scratch.ahead).subspan(first, scratch.fetched - first);
}

void NativeAttention::ScoreKeys(uint32_t lines, uint32_t tokens, Scratch& scratch) const {
  const uint32_t head_dim = config_.head_dim;
  if (takes_rows()) {
    const auto next = Ahead(tokens, scratch);
    table_.score_keys({.a = scratch.queries.data(),
                       .a_stride = head_dim,
                       .lines = lines,
                       .rows = scratch.keys_at.data(),
                       .tokens = tokens,
                       .columns = head_dim,
                       .next = next.data(),
                       .next_tokens = static_cast<uint32_t>(next.size()),
                       .out = scratch.scores.data(),
                       .out_stride = kChunkTokens});
    return;
  }
  table_.pack_keys(scratch.keys_at.data(), tokens, head_dim, scratch.keys.data());
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
}

void NativeAttention::WeighValues(uint32_t lines, uint32_t tokens, Scratch& scratch) const {
  const uint32_t head_dim = config_.head_dim;
  if (takes_rows()) {
    const auto next = Ahead(tokens, scratch);
    table_.weigh_values({.a = scratch.weights.data(),
                         .a_stride = kChunkTokens,
                         .lines = lines,
                         .rows = scratch.values_at.data(),
                         .tokens = tokens,
                         .columns = head_dim,
                         .next = next.data(),
                         .next_tokens = static_cast<uint32_t>(next.size()),
                         .out = scratch.acc.data(),
                         .out_stride = columns()});
    return;
  }
  table_.pack_values(scratch.values_at.data(), tokens, head_dim, scratch.values.data());
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

// scores = q * K^T; weights = softmax; acc = weights * V, for every line of the tile.
void NativeAttention::Chunk(const Call& call, const Part& part, Scratch& scratch) const {
  const Tile& tile = tiles_[part.tile];
  const uint32_t lines = Lines(tile);
  const uint32_t tokens = TokensOf(call, part);
  PointAt(call, part, KvPart::kK, scratch.keys_at);
  PointAt(call, part, KvPart::kV, scratch.values_at);

  ScoreKeys(lines, tokens, scratch);
  const float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
  const uint64_t line_bytes = uint64_t{kChunkTokens} * table_.element_bytes();
  for (uint32_t line = 0; line < lines; ++line) {
    const uint32_t visible = Visible(call.rows[tile.first_row + line / group()], part.chunk);
    std::byte* const weights = scratch.weights.data() + line * line_bytes;
    if (visible == 0) {
      std::memset(weights, 0, Padded(tokens) * table_.element_bytes());
      continue;
    }
    scratch.sums[line] = table_.softmax(scratch.scores.data() + line * kChunkTokens, visible,
                                        Padded(tokens), scale, weights);
  }
  WeighValues(lines, tokens, scratch);
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
    Part part{.tile = static_cast<uint32_t>(tiles_.size() - 1 - unit / config_.kv_heads),
              .kv_head = static_cast<uint32_t>(unit % config_.kv_heads)};
    const Tile& tile = tiles_[part.tile];
    Scratch& scratch = scratch_[thread];
    GatherQueries(call, tile, part.kv_head, scratch);
    const uint64_t chunks = ChunksOf(call, tile);
    for (; part.chunk < chunks; ++part.chunk) {
      Part next = part;
      ++next.chunk;
      LookAhead(call, next.chunk < chunks ? &next : nullptr, 1, scratch);
      Chunk(call, part, scratch);
      MergeChunk(call, tile, part.chunk, scratch.sums.data(), scratch.acc.data(), scratch);
    }
    Finish(call, tile, part.kv_head, scratch);
  });
}

// Few tiles: chunks of the context are shared out, and merged afterwards in the same order. A
// record has the K and V of all heads side by side, so the heads of a chunk follow each other.
void NativeAttention::ByChunk(const Call& call) {
  parts_.clear();
  uint64_t lines = 0;
  for (uint32_t t = 0; t < tiles_.size(); ++t) {
    for (uint64_t chunk = 0; chunk < ChunksOf(call, tiles_[t]); ++chunk) {
      for (uint32_t kv_head = 0; kv_head < config_.kv_heads; ++kv_head) {
        parts_.push_back({.tile = t, .kv_head = kv_head, .chunk = chunk, .first_line = lines});
        lines += Lines(tiles_[t]);
      }
    }
  }
  if (part_sums_.size() < lines) part_sums_.resize(lines);
  if (part_acc_.size() < lines * columns()) part_acc_.resize(lines * columns());
  // Where that leaves enough for all threads, one takes all heads of a chunk.
  const bool whole = parts_.size() >= uint64_t{4} * team_.size() * config_.kv_heads;
  const uint32_t heads = whole ? config_.kv_heads : 1;
  team_.ForEach(parts_.size() / heads, [&](uint32_t thread, uint64_t unit) {
    Scratch& scratch = scratch_[thread];
    // What this thread comes to next when the others keep pace.
    const uint64_t next = (unit + team_.size()) * heads;
    LookAhead(call, next < parts_.size() ? &parts_[next] : nullptr, heads, scratch);
    for (uint32_t i = 0; i < heads; ++i) {
      const Part& part = parts_[unit * heads + i];
      const Tile& tile = tiles_[part.tile];
      GatherQueries(call, tile, part.kv_head, scratch);
      Chunk(call, part, scratch);
      std::copy_n(scratch.sums.begin(), Lines(tile), part_sums_.begin() + part.first_line);
      std::copy_n(scratch.acc.begin(), uint64_t{Lines(tile)} * columns(),
                  part_acc_.begin() + part.first_line * columns());
    }
  });
  Scratch& scratch = scratch_[0];
  const Part* first_of_tile = parts_.data();
  for (const Tile& tile : tiles_) {
    const uint64_t chunks = ChunksOf(call, tile);
    for (uint32_t kv_head = 0; kv_head < config_.kv_heads; ++kv_head) {
      for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
        const Part& part = first_of_tile[chunk * config_.kv_heads + kv_head];
        MergeChunk(call, tile, chunk, part_sums_.data() + part.first_line,
                   part_acc_.data() + part.first_line * columns(), scratch);
      }
      Finish(call, tile, kv_head, scratch);
    }
    first_of_tile += chunks * config_.kv_heads;
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
