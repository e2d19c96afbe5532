// Products of bf16 by instructions that multiply whole tiles, as Intel's AMX has them: sixteen rows
// with a packed tile of sixteen outputs, 32 elements of k at a time. Tiles are those of the CPU, or
// a test's. A row's sums don't depend on how many rows a tile has.
//
// Tiles has, all static: Configure(low, high), how many rows the first and the second tile of `a`
// have; Zero(has_high), the sums; LoadRows<i>(address, stride_bytes); LoadPacked<j>(address);
// Add<i, j>(), sums of tile i of `a` and tile j of `b`; StoreSums<i, j>(address, stride_bytes);
// Release().
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/kernels/native/kernel_table.h"

namespace kvbed {

inline constexpr uint32_t kRowsOfTile = 16;
inline constexpr uint32_t kDepthOfTile = 32;  // elements of k
static_assert(kRowPad % kDepthOfTile == 0);

// The sums of up to sixteen rows from `row` on, and of as many behind them where `has_high`, over
// kTiles tiles.
template <class Tiles, uint32_t kTiles>
void SumTiles(const Product& product, uint32_t row, bool has_high, uint32_t tile, float* sums) {
  const auto* const a = static_cast<const uint16_t*>(product.a) + row * product.a_stride;
  const uint64_t stride_bytes = product.a_stride * sizeof(uint16_t);
  const uint64_t tile_elements = uint64_t{product.columns} * kTileRows;
  const auto* const b = static_cast<const uint16_t*>(product.b) + tile * tile_elements;
  Tiles::Zero(has_high);
  for (uint32_t k = 0; k < product.columns; k += kDepthOfTile) {
    const uint16_t* const packed = b + uint64_t{k} * kTileRows;
    Tiles::template LoadRows<0>(a + k, stride_bytes);
    Tiles::template LoadPacked<0>(packed);
    Tiles::template Add<0, 0>();
    if constexpr (kTiles == 2) {
      Tiles::template LoadPacked<1>(packed + tile_elements);
      Tiles::template Add<0, 1>();
    }
    if (!has_high) continue;
    Tiles::template LoadRows<1>(a + kRowsOfTile * product.a_stride + k, stride_bytes);
    Tiles::template Add<1, 0>();
    if constexpr (kTiles == 2) Tiles::template Add<1, 1>();
  }
  constexpr uint64_t kSumsBytes = uint64_t{kTiles} * kTileRows * sizeof(float);
  float* const high = sums + uint64_t{kRowsOfTile} * kTiles * kTileRows;
  Tiles::template StoreSums<0, 0>(sums, kSumsBytes);
  if constexpr (kTiles == 2) Tiles::template StoreSums<0, 1>(sums + kTileRows, kSumsBytes);
  if (!has_high) return;
  Tiles::template StoreSums<1, 0>(high, kSumsBytes);
  if constexpr (kTiles == 2) Tiles::template StoreSums<1, 1>(high + kTileRows, kSumsBytes);
}

// As KernelTable::multiply.
template <class Tiles>
void MultiplyByTiles(const KernelTable& table, const Product& product) {
  const uint32_t end = product.tile + product.tiles;
  alignas(64) float sums[2 * kRowsOfTile * 2 * kTileRows];
  for (uint32_t row = 0; row < product.rows; row += 2 * kRowsOfTile) {
    const uint32_t low = std::min(kRowsOfTile, product.rows - row);
    const uint32_t high = std::min(kRowsOfTile, product.rows - row - low);
    Tiles::Configure(low, high);
    uint32_t tile = product.tile;
    for (; tile + 2 <= end; tile += 2) {
      SumTiles<Tiles, 2>(product, row, high > 0, tile, sums);
      table.put(product, row, low + high, tile, 2, sums);
    }
    if (tile < end) {
      SumTiles<Tiles, 1>(product, row, high > 0, tile, sums);
      table.put(product, row, low + high, tile, 1, sums);
    }
  }
  Tiles::Release();
}

}  // namespace kvbed
