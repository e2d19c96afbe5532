// A model's weights as the native kernels read them: matrices packed in tiles, norms padded. It
// doesn't know the forward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/kernels/native/kernel_table.h"
#include "engine/model/model_files.h"
#include "offload/aligned_buffer.h"
#include "offload/status.h"

namespace kvbed {

// Product::b: tile after tile.
struct PackedMatrix {
  AlignedBuffer data;
  uint32_t tiles = 0;
  uint32_t columns = 0;  // padded
};

struct NativeLayer {
  AlignedBuffer input_norm;  // [hidden]
  PackedMatrix qkv;          // [(heads + 2 * kv_heads) * head_dim, hidden]: q, k, v
  PackedMatrix o;            // [hidden, heads * head_dim]
  AlignedBuffer post_norm;   // [hidden]
  PackedMatrix gate_up;      // tiles of gate and up, [intermediate, hidden] each, by turns
  PackedMatrix down;         // [hidden, intermediate]
};

struct NativeWeights {
  PackedMatrix embedding;  // [vocab, hidden]; the output matrix too when the model ties them
  PackedMatrix output;     // [vocab, hidden]; none when tied
  AlignedBuffer final_norm;
  std::vector<NativeLayer> layers;
  uint64_t bytes = 0;

  const PackedMatrix& output_matrix() const { return output.tiles == 0 ? embedding : output; }
};

// Reads, dequantises and packs on `threads` threads. Out of space when memory doesn't suffice.
Result<NativeWeights> LoadNativeWeights(const ModelFiles& model, const KernelTable& table,
                                        uint32_t threads);

// Row `row` of a matrix that has `columns` elements before padding, to `out`.
void UnpackRow(const PackedMatrix& matrix, DType dtype, uint32_t row, uint32_t columns, void* out);

}  // namespace kvbed
