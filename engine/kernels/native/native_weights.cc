#include "engine/kernels/native/native_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "engine/parallel_for.h"

namespace kvbed {
namespace {

// One tile of a packed matrix and the rows of a tensor that it is made of.
struct TileJob {
  const WeightTensor* tensor = nullptr;
  uint64_t first_row = 0;
  uint32_t rows = 0;
  std::byte* packed = nullptr;
};

void PackTile(const TileJob& job, const KernelTable& table) {
  const auto columns = static_cast<uint32_t>(job.tensor->columns());
  const uint64_t row_bytes = uint64_t{columns} * table.element_bytes();
  // A pair of bf16 is packed as one: an odd column gets a zero beside it.
  const uint64_t stride = uint64_t{Padded(columns)} * table.element_bytes();
  std::vector<std::byte> dense(row_bytes), rows(stride * job.rows);
  std::array<const void*, kTileRows> starts{};
  for (uint32_t i = 0; i < job.rows; ++i) {
    if (table.dtype == DType::kBf16) {
      job.tensor->ReadRowsBf16(job.first_row + i, 1,
                               {reinterpret_cast<uint16_t*>(dense.data()), columns});
    } else {
      job.tensor->ReadRows(job.first_row + i, 1, {reinterpret_cast<float*>(dense.data()), columns});
    }
    starts[i] = rows.data() + i * stride;
    std::memcpy(rows.data() + i * stride, dense.data(), row_bytes);
  }
  table.pack_keys(starts.data(), job.rows, Padded(columns), job.packed);
}

// Makes the matrices and lists the tiles that fill them.
class Packing {
 public:
  Packing(const Weights& weights, const KernelTable& table) : weights_(weights), table_(table) {}

  // The tensors one below the other; `interleaved`: their tiles by turns. Each starts with a new
  // tile, so but for the last their rows must fill tiles.
  Status Add(PackedMatrix& matrix, const std::vector<std::string>& names,
             bool interleaved = false) {
    uint32_t tiles = 0;
    for (const std::string& name : names) tiles += TilesFor(RowsOf(name));
    matrix.tiles = tiles;
    matrix.columns = Padded(static_cast<uint32_t>(weights_.At(names[0]).columns()));
    const uint64_t tile_bytes = uint64_t{matrix.columns} * kTileRows * table_.element_bytes();
    KVBED_ASSIGN_OR_RETURN(matrix.data, AlignedBuffer::Allocate(tiles * tile_bytes));
    bytes_ += matrix.data.size_bytes();
    uint64_t tile = 0;
    for (size_t n = 0; n < names.size(); ++n) {
      const WeightTensor& tensor = weights_.At(names[n]);
      for (uint64_t row = 0; row < tensor.rows(); row += kTileRows) {
        const uint64_t at = interleaved ? row / kTileRows * names.size() + n : tile++;
        const auto rows = static_cast<uint32_t>(std::min<uint64_t>(kTileRows, tensor.rows() - row));
        jobs_.push_back({&tensor, row, rows, matrix.data.bytes().data() + at * tile_bytes});
      }
    }
    return Status::Ok();
  }

  Status AddNorm(AlignedBuffer& norm, std::string_view name) {
    const WeightTensor& tensor = weights_.At(name);
    const auto columns = static_cast<uint32_t>(tensor.columns());
    KVBED_ASSIGN_OR_RETURN(
        norm, AlignedBuffer::Allocate(uint64_t{Padded(columns)} * table_.element_bytes()));
    bytes_ += norm.size_bytes();
    std::byte* const out = norm.bytes().data();
    if (table_.dtype == DType::kBf16) {
      tensor.ReadRowsBf16(0, 1, {reinterpret_cast<uint16_t*>(out), columns});
    } else {
      tensor.ReadRows(0, 1, {reinterpret_cast<float*>(out), columns});
    }
    return Status::Ok();
  }

  void Run(uint32_t threads) const {
    ParallelFor(threads, jobs_.size(), [&](uint64_t i) { PackTile(jobs_[i], table_); });
  }
  uint64_t bytes() const { return bytes_; }

 private:
  uint32_t RowsOf(std::string_view name) const {
    return static_cast<uint32_t>(weights_.At(name).rows());
  }

  const Weights& weights_;
  const KernelTable& table_;
  std::vector<TileJob> jobs_;
  uint64_t bytes_ = 0;
};

}  // namespace

Result<NativeWeights> LoadNativeWeights(const ModelFiles& model, const KernelTable& table,
                                        uint32_t threads) {
  Packing packing(model.weights, table);
  NativeWeights weights;
  KVBED_RETURN_IF_ERROR(packing.Add(weights.embedding, {std::string(kEmbeddingName)}));
  if (!model.config.tie_word_embeddings) {
    KVBED_RETURN_IF_ERROR(packing.Add(weights.output, {std::string(kOutputName)}));
  }
  KVBED_RETURN_IF_ERROR(packing.AddNorm(weights.final_norm, kFinalNormName));
  weights.layers.resize(model.config.layers);
  for (uint32_t l = 0; l < model.config.layers; ++l) {
    NativeLayer& layer = weights.layers[l];
    const auto name = [&](std::string_view part) { return LayerTensorName(l, part); };
    KVBED_RETURN_IF_ERROR(packing.AddNorm(layer.input_norm, name("input_layernorm.weight")));
    KVBED_RETURN_IF_ERROR(
        packing.Add(layer.qkv, {name("self_attn.q_proj.weight"), name("self_attn.k_proj.weight"),
                                name("self_attn.v_proj.weight")}));
    KVBED_RETURN_IF_ERROR(packing.Add(layer.o, {name("self_attn.o_proj.weight")}));
    KVBED_RETURN_IF_ERROR(
        packing.AddNorm(layer.post_norm, name("post_attention_layernorm.weight")));
    KVBED_RETURN_IF_ERROR(packing.Add(
        layer.gate_up, {name("mlp.gate_proj.weight"), name("mlp.up_proj.weight")}, true));
    KVBED_RETURN_IF_ERROR(packing.Add(layer.down, {name("mlp.down_proj.weight")}));
  }
  packing.Run(threads);
  weights.bytes = packing.bytes();
  return weights;
}

void UnpackRow(const PackedMatrix& matrix, DType dtype, uint32_t row, uint32_t columns, void* out) {
  const uint32_t lane = row % kTileRows;
  const uint64_t tile = uint64_t{row / kTileRows} * matrix.columns * kTileRows;
  if (dtype == DType::kBf16) {
    const auto* const from = reinterpret_cast<const uint16_t*>(matrix.data.bytes().data()) + tile;
    for (uint32_t k = 0; k < columns; ++k) {
      static_cast<uint16_t*>(out)[k] = from[(k / 2 * kTileRows + lane) * 2 + k % 2];
    }
  } else {
    const auto* const from = reinterpret_cast<const float*>(matrix.data.bytes().data()) + tile;
    for (uint32_t k = 0; k < columns; ++k) {
      static_cast<float*>(out)[k] = from[k * kTileRows + lane];
    }
  }
}

}  // namespace kvbed
