#include "engine/kernels/native/native_model.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/kernels/native/activations.h"
#include "engine/kernels/native/attention.h"
#include "engine/kernels/native/kernel_table.h"
#include "engine/kernels/native/native_weights.h"
#include "engine/kernels/native/rope_table.h"
#include "engine/kernels/native/thread_team.h"

namespace kvbed {
namespace {

// Rows that go through a layer together. A larger call goes in panels, which changes no bits and
// bounds the memory.
constexpr uint32_t kPanelRows = 256;
// Logits are wide.
constexpr uint32_t kLogitsRows = 32;
// Tiles of a product that a thread takes at once; even, since gate and up come in pairs.
constexpr uint32_t kUnitTiles = 4;

}  // namespace

struct NativeModel::Parts {
  Parts(const ModelFiles& model, KernelTable chosen, uint32_t threads)
      : config(model.config),
        table(std::move(chosen)),
        team(threads),
        rope(config, table.dtype),
        attention(table, config, team) {}

  const ModelConfig config;
  const KernelTable table;
  ThreadTeam team;
  RopeTable rope;
  NativeAttention attention;
  NativeWeights weights;
  Activations x;         // [row][hidden], the residual stream
  Activations normed;    // [row][hidden]
  Activations qkv;       // [row][q | k | v], each from a tile's first output on
  Activations attended;  // [row][heads * head_dim]
  Activations gated;     // [row][intermediate]
  std::vector<float> logits;

  uint32_t k_at() const { return TilesFor(config.query_rows()) * kTileRows; }
  uint32_t v_at() const { return k_at() + TilesFor(config.kv_rows()) * kTileRows; }

  Status Allocate();
  // `tap` sees rows of one sequence at consecutive positions, or is null.
  void RunPanel(std::span<const NativeRow> rows, const OpTap* tap);
  void Multiply(Activations& a, uint64_t rows, const PackedMatrix& b, Into into, void* out,
                uint64_t out_stride);
  void Normalise(Activations& from, uint64_t first, uint64_t rows, const AlignedBuffer& weight);
  void RotateAndCache(const NativeRow& row, uint32_t layer, uint64_t index);
  // Of what EmitLogits shows: `tap`, and the position of its first row.
  struct LogitsTap {
    const OpTap* tap = nullptr;
    uint64_t first_position = 0;
  };
  void EmitLogits(uint64_t first, uint64_t rows, uint64_t first_index, const LogitsSink& sink,
                  const LogitsTap& tap);
  // Columns [column, column + columns) of the first `rows` rows.
  static OpOutput OutputOf(Activations& from, uint64_t rows, uint64_t column, uint64_t columns);
};

Status NativeModel::Parts::Allocate() {
  const uint64_t bytes = table.element_bytes();
  const auto rows = [&](uint32_t columns) {
    return Activations::Allocate(kPanelRows, columns, bytes);
  };
  KVBED_ASSIGN_OR_RETURN(x, rows(config.hidden));
  KVBED_ASSIGN_OR_RETURN(normed, rows(config.hidden));
  KVBED_ASSIGN_OR_RETURN(qkv, rows(v_at() + TilesFor(config.kv_rows()) * kTileRows));
  KVBED_ASSIGN_OR_RETURN(attended, rows(config.query_rows()));
  KVBED_ASSIGN_OR_RETURN(gated, rows(config.intermediate));
  return Status::Ok();
}

// out = a * b^T, by tiles of b.
void NativeModel::Parts::Multiply(Activations& a, uint64_t rows, const PackedMatrix& b, Into into,
                                  void* out, uint64_t out_stride) {
  const Product whole{.a = a.Row(0),
                      .a_stride = a.stride,
                      .rows = static_cast<uint32_t>(rows),
                      .columns = b.columns,
                      .b = b.data.bytes().data(),
                      .tile = 0,
                      .tiles = b.tiles,
                      .into = into,
                      .out = out,
                      .out_stride = out_stride};
  team.ForEach((b.tiles + kUnitTiles - 1) / kUnitTiles, [&](uint32_t, uint64_t unit) {
    Product part = whole;
    part.tile = static_cast<uint32_t>(unit) * kUnitTiles;
    part.tiles = std::min(kUnitTiles, b.tiles - part.tile);
    table.multiply(table, part);
  });
}

// normed[0..rows) = RMSNorm(from[first..first + rows))
void NativeModel::Parts::Normalise(Activations& from, uint64_t first, uint64_t rows,
                                   const AlignedBuffer& weight) {
  team.ForEach(rows, [&](uint32_t, uint64_t row) {
    table.rms_norm(from.Row(first + row), weight.bytes().data(), config.hidden, config.rms_norm_eps,
                   normed.Row(row));
  });
}

// Rotates q and k of a row and writes k and v to the sequence's record.
void NativeModel::Parts::RotateAndCache(const NativeRow& row, uint32_t layer, uint64_t index) {
  const float* const cos = rope.Cos(row.position);
  const float* const sin = rope.Sin(row.position);
  const uint32_t head_dim = config.head_dim;
  for (uint32_t head = 0; head < config.heads; ++head) {
    table.rotate(qkv.At(index, uint64_t{head} * head_dim), cos, sin, rope.half());
  }
  const KvGeometry& geometry = row.sequence->pool().geometry();
  const uint64_t row_bytes = uint64_t{head_dim} * geometry.element_bytes();
  std::byte* const block = row.sequence->payload(row.position / geometry.block_tokens).data() +
                           row.position % geometry.block_tokens * row_bytes;
  for (uint32_t head = 0; head < config.kv_heads; ++head) {
    std::byte* const k = qkv.At(index, k_at() + uint64_t{head} * head_dim);
    const std::byte* const v = qkv.At(index, v_at() + uint64_t{head} * head_dim);
    table.rotate(k, cos, sin, rope.half());
    std::memcpy(block + geometry.HeadOffset(layer, KvPart::kK, head), k, row_bytes);
    std::memcpy(block + geometry.HeadOffset(layer, KvPart::kV, head), v, row_bytes);
  }
}

OpOutput NativeModel::Parts::OutputOf(Activations& from, uint64_t rows, uint64_t column,
                                      uint64_t columns) {
  return {.op = {},
          .layer = {},
          .first_position = 0,
          .rows = rows,
          .columns = columns,
          .element_bytes = from.element_bytes,
          .row_stride_bytes = from.stride * from.element_bytes,
          .data = from.At(0, column)};
}

// The forward pass up to the last layer's residual stream, which is left in x.
void NativeModel::Parts::RunPanel(std::span<const NativeRow> rows, const OpTap* tap) {
  const uint64_t n = rows.size();
  const auto show = [&](std::string_view op, std::optional<uint32_t> l, Activations& from,
                        uint64_t columns, uint64_t column = 0) {
    if (tap == nullptr) return;
    OpOutput output = OutputOf(from, n, column, columns);
    output.op = op;
    output.layer = l;
    output.first_position = rows[0].position;
    (*tap)(output);
  };
  for (uint64_t i = 0; i < n; ++i) {
    UnpackRow(weights.embedding, table.dtype, static_cast<uint32_t>(rows[i].token), config.hidden,
              x.Row(i));
  }
  show("embedding", {}, x, config.hidden);
  for (uint32_t l = 0; l < config.layers; ++l) {
    const NativeLayer& layer = weights.layers[l];
    Normalise(x, 0, n, layer.input_norm);
    show("input_norm", l, normed, config.hidden);
    Multiply(normed, n, layer.qkv, Into::kElements, qkv.Row(0), qkv.stride);
    show("q_proj", l, qkv, config.query_rows());
    show("k_proj", l, qkv, config.kv_rows(), k_at());
    show("v_proj", l, qkv, config.kv_rows(), v_at());
    team.ForEach(n, [&](uint32_t, uint64_t row) { RotateAndCache(rows[row], l, row); });
    show("q_rotary", l, qkv, config.query_rows());
    show("k_rotary", l, qkv, config.kv_rows(), k_at());
    attention.Run(rows, l, qkv.Row(0), qkv.stride, attended.Row(0), attended.stride);
    show("attention", l, attended, config.query_rows());
    Multiply(attended, n, layer.o, Into::kResidual, x.Row(0), x.stride);
    show("o_proj+residual", l, x, config.hidden);

    Normalise(x, 0, n, layer.post_norm);
    show("post_attention_norm", l, normed, config.hidden);
    Multiply(normed, n, layer.gate_up, Into::kGated, gated.Row(0), gated.stride);
    show("gate_proj+up_proj+silu", l, gated, config.intermediate);
    Multiply(gated, n, layer.down, Into::kResidual, x.Row(0), x.stride);
    show("down_proj+residual", l, x, config.hidden);
  }
}

// Of the rows [first, first + rows) of x, which are the tokens from first_index on.
void NativeModel::Parts::EmitLogits(uint64_t first, uint64_t rows, uint64_t first_index,
                                    const LogitsSink& sink, const LogitsTap& tap) {
  const PackedMatrix& output = weights.output_matrix();
  const uint64_t stride = uint64_t{output.tiles} * kTileRows;
  for (uint64_t done = 0; done < rows; done += kLogitsRows) {
    const uint64_t n = std::min<uint64_t>(kLogitsRows, rows - done);
    if (logits.size() < n * stride) logits.resize(n * stride);
    Normalise(x, first + done, n, weights.final_norm);
    Multiply(normed, n, output, Into::kLogits, logits.data(), stride);
    if (tap.tap != nullptr) {
      OpOutput shown = OutputOf(normed, n, 0, config.hidden);
      shown.op = "final_norm";
      shown.first_position = tap.first_position + done;
      (*tap.tap)(shown);
      (*tap.tap)({.op = "logits",
                  .layer = {},
                  .first_position = shown.first_position,
                  .rows = n,
                  .columns = config.vocab,
                  .element_bytes = sizeof(float),
                  .row_stride_bytes = stride * sizeof(float),
                  .data = reinterpret_cast<const std::byte*>(logits.data())});
    }
    for (uint64_t row = 0; row < n; ++row) {
      sink(first_index + done + row, {logits.data() + row * stride, config.vocab});
    }
  }
}

NativeModel::NativeModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
NativeModel::NativeModel(NativeModel&&) noexcept = default;
NativeModel& NativeModel::operator=(NativeModel&&) noexcept = default;
NativeModel::~NativeModel() = default;

Result<NativeModel> NativeModel::Open(const ModelFiles& model, DType dtype, uint32_t threads,
                                      const std::string& isa) {
  KVBED_ASSIGN_OR_RETURN(const KernelTable table, FindKernelTable(dtype, isa));
  return OpenWith(model, threads, table);
}

Result<NativeModel> NativeModel::OpenWith(const ModelFiles& model, uint32_t threads,
                                          const KernelTable& table) {
  auto parts = std::make_unique<Parts>(model, table, threads);
  KVBED_RETURN_IF_ERROR(parts->Allocate());
  KVBED_ASSIGN_OR_RETURN(parts->weights, LoadNativeWeights(model, parts->table, threads));
  return NativeModel(std::move(parts));
}

Status NativeModel::Forward(const ForwardCall& call) {
  const uint64_t past = call.sequence.cached_tokens(), n = call.tokens.size();
  parts_->rope.Extend(past + n);
  for (uint64_t first = 0; first < n; first += kPanelRows) {
    std::vector<NativeRow> rows;
    for (uint64_t i = first; i < std::min<uint64_t>(first + kPanelRows, n); ++i) {
      rows.push_back({.token = call.tokens[i], .sequence = &call.sequence, .position = past + i});
    }
    parts_->RunPanel(rows, call.tap);
    const uint64_t wanted = std::max(first, call.first_logits);
    if (wanted < first + rows.size()) {
      parts_->EmitLogits(wanted - first, first + rows.size() - wanted, wanted, call.on_logits,
                         {.tap = call.tap, .first_position = past + wanted});
    }
  }
  return Status::Ok();
}

Status NativeModel::DecodeBatch(const DecodeCall& call) {
  for (const DecodeRow& row : call.rows) parts_->rope.Extend(row.sequence->cached_tokens() + 1);
  for (uint64_t first = 0; first < call.rows.size(); first += kPanelRows) {
    const auto panel =
        call.rows.subspan(first, std::min<uint64_t>(kPanelRows, call.rows.size() - first));
    std::vector<NativeRow> rows;
    for (const DecodeRow& row : panel) {
      rows.push_back({.token = row.token,
                      .sequence = row.sequence,
                      .position = row.sequence->cached_tokens()});
    }
    parts_->RunPanel(rows, nullptr);
    parts_->EmitLogits(0, rows.size(), first, call.on_logits, {});
  }
  return Status::Ok();
}

uint64_t NativeModel::weight_bytes() const { return parts_->weights.bytes; }

NumericEnvironment NativeModel::environment() const {
  NumericEnvironment environment;
  environment.kernel_set = "native";
  environment.isa = parts_->table.arithmetic;
  environment.library = "kvbed kernels 1";
  environment.linear = parts_->table.dtype == DType::kBf16 ? "bf16" : "fp32";
  environment.threads = parts_->team.size();
  return environment;
}

bool HasNativeKernels() { return !KernelTables(DType::kFp32).empty(); }

}  // namespace kvbed
