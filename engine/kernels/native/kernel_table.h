// The inner loops of the native kernels as a table of functions, one table for each instruction set
// and dtype. Each result is a function of its own row alone, computed in one order, so that it has
// the same bits whatever runs beside it. Nothing here knows models, threads or pool records.
//
// An element is a bf16 (uint16_t) or a float. Rows of elements are padded with zeroes to a multiple
// of kRowPad, and a table may read and write the padding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offload/kv_geometry.h"
#include "offload/status.h"

namespace kvbed {

inline constexpr uint32_t kTileRows = 16;      // outputs of one packed tile: lanes of a vector
inline constexpr uint32_t kRowPad = 32;        // elements
inline constexpr uint32_t kChunkTokens = 256;  // context that attention takes as one

constexpr uint32_t Padded(uint32_t elements) {
  return (elements + kRowPad - 1) / kRowPad * kRowPad;
}
constexpr uint32_t TilesFor(uint32_t rows) { return (rows + kTileRows - 1) / kTileRows; }

// What becomes of the sums of a product.
enum class Into : uint8_t {
  kElements,  // out = round(sum)
  kResidual,  // out = round(out + round(sum))
  kGated,     // tiles are pairs of gate and up: out = round(round(silu(round(gate))) * round(up))
  kFloats,    // out = sum
  kLogits,    // out = round(sum), as floats
};

// out[m][n] from the sums over k, in ascending order, of a[m][k] * b[n][k].
// a: `rows` rows of `columns` elements, a multiple of kRowPad, `a_stride` elements apart.
// b: packed tiles of kTileRows outputs, each [columns / 2][kTileRows][2] for bf16 and
// [columns][kTileRows] for float. Takes the tiles [tile, tile + tiles) of it; n counts from the
// first output of tile 0, or half of that for kGated, whose tiles come in pairs.
struct Product {
  const void* a = nullptr;
  uint64_t a_stride = 0;
  uint32_t rows = 0;
  uint32_t columns = 0;
  const void* b = nullptr;
  uint32_t tile = 0;
  uint32_t tiles = 0;
  Into into = Into::kElements;
  void* out = nullptr;  // rows of elements or floats, `out_stride` of them apart
  uint64_t out_stride = 0;
};

// A product of attention: `lines` rows of elements, `a_stride` apart, and `tokens` rows of K or V
// of `columns` elements, a multiple of kRowPad, wherever they lie; out: floats, a line `out_stride`
// apart, whole tiles of kTileRows.
struct KvProduct {
  const void* a = nullptr;
  uint64_t a_stride = 0;
  uint32_t lines = 0;
  const void* const* rows = nullptr;
  uint32_t tokens = 0;  // at least 1
  uint32_t columns = 0;
  // `next_tokens` rows that will be wanted after these: they are fetched meanwhile.
  const void* const* next = nullptr;
  uint32_t next_tokens = 0;
  float* out = nullptr;
  uint64_t out_stride = 0;
};

// Softmax of one row over one chunk of the context, not yet divided by its sum.
struct ChunkSums {
  float max = 0;  // of the scaled scores
  float sum = 0;  // of exp(score - max), each rounded to the element
};

struct KernelTable {
  std::string name;  // of the instruction set: "avx2", "avx512", "avx512_bf16", "amx_bf16", "neon"
  // Of the arithmetic: tables of one name here give equal bits.
  std::string arithmetic;
  DType dtype = DType::kFp32;

  // `table` is this one.
  void (*multiply)(const KernelTable& table, const Product& product) = nullptr;
  // What multiply does with its sums: those of rows [row, row + rows) and tiles [tile, tile +
  // tiles), [rows][tiles * kTileRows].
  void (*put)(const Product& product, uint32_t row, uint32_t rows, uint32_t tile, uint32_t tiles,
              const float* sums) = nullptr;
  // Tiles whose outputs are `tokens` rows of `columns` elements, which are padded: weights, and
  // attention's K. `columns` is even.
  void (*pack_keys)(const void* const* rows, uint32_t tokens, uint32_t columns,
                    void* packed) = nullptr;
  // Tiles whose outputs are the columns and whose k runs over `tokens`, which are padded:
  // attention's V.
  void (*pack_values)(const void* const* rows, uint32_t tokens, uint32_t columns,
                      void* packed) = nullptr;
  // The same bits as packing and multiplying, without packing; both null in a table whose products
  // want packed tiles. Of a line with each token's row, over columns: out[line][token].
  void (*score_keys)(const KvProduct& product) = nullptr;
  // Of a line's numbers for each token, Padded(tokens) of them, with that column of the tokens'
  // rows, over tokens: out[line][column].
  void (*weigh_values)(const KvProduct& product) = nullptr;
  // `scores`, kChunkTokens floats, of which `tokens` count, are scaled; `weights` gets exp(score -
  // max), zero from `tokens` on up to `tokens_padded`.
  ChunkSums (*softmax)(const float* scores, uint32_t tokens, uint32_t tokens_padded, float scale,
                       void* weights) = nullptr;
  // Adds a chunk to a row's running state: sums, and `columns` floats (a multiple of kTileRows) of
  // the weighted V.
  void (*merge)(ChunkSums& state, float* acc, const ChunkSums& chunk, const float* chunk_acc,
                uint32_t columns) = nullptr;
  // out[i] = round(acc[i] / sum)
  void (*divide)(const float* acc, float sum, uint32_t columns, void* out) = nullptr;
  // out = round(round(x / sqrt(mean(x^2) + eps)) * weight) over `columns` elements; padding is read
  // as zeroes.
  void (*rms_norm)(const void* x, const void* weight, uint32_t columns, float eps,
                   void* out) = nullptr;
  // In place, the pair of d being d + half: each product and the sum are rounded. cos, sin: half
  // floats.
  void (*rotate)(void* x, const float* cos, const float* sin, uint32_t half) = nullptr;

  uint32_t element_bytes() const { return dtype == DType::kBf16 ? 2 : 4; }
};

// All tables that this CPU and this build can run for a dtype, the fastest first; empty where there
// is none.
std::vector<KernelTable> KernelTables(DType dtype);

// The fastest of them whose instruction set or arithmetic `isa` names; any where it is empty.
// NotSupported where there is none at all, InvalidArgument, with the names, where none is called
// so.
Result<KernelTable> FindKernelTable(DType dtype, const std::string& isa);

}  // namespace kvbed
