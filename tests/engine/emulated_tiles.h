// AMX's tile instructions in plain code, as Intel's SDM describes TDPBF16PS, for CPUs without them:
// what engine/kernels/native/tile_products.h asks of a Tiles. It complains of tiles that were used
// before they were configured.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "engine/kernels/native/tile_products.h"
#include "engine/model/float_formats.h"

namespace kvbed {

struct EmulatedTiles {
  using Tile = std::array<std::array<std::byte, 64>, 16>;
  struct State {
    bool configured = false;
    std::array<uint32_t, 2> rows{};
    std::array<std::array<Tile, 2>, 2> sums{};
    std::array<Tile, 2> a{}, b{};
  };
  static State& Get() {
    static State state;
    return state;
  }

  static void Configure(uint32_t low, uint32_t high) {
    EXPECT_TRUE(low > 0 && low <= 16 && high <= 16 && (high == 0 || low == 16));
    // What was in the tiles is gone.
    Get() = {.configured = true, .rows = {low, high}, .sums = {}, .a = {}, .b = {}};
  }
  static void Release() { Get().configured = false; }
  static void Zero(bool) {
    EXPECT_TRUE(Get().configured);
    Get().sums = {};
  }
  template <uint32_t kHalf>
  static void LoadRows(const uint16_t* from, uint64_t stride_bytes) {
    EXPECT_GT(Get().rows[kHalf], 0u);
    for (uint32_t row = 0; row < Get().rows[kHalf]; ++row) {
      std::memcpy(Get().a[kHalf][row].data(),
                  reinterpret_cast<const std::byte*>(from) + row * stride_bytes, 64);
    }
  }
  template <uint32_t kTile>
  static void LoadPacked(const uint16_t* from) {
    std::memcpy(&Get().b[kTile], from, sizeof(Tile));
  }
  template <uint32_t kHalf, uint32_t kTile>
  static void Add() {
    const auto element = [](const Tile& tile, uint32_t row, uint32_t column) {
      uint16_t bits = 0;
      std::memcpy(&bits, tile[row].data() + column * sizeof(bits), sizeof(bits));
      return Bf16ToFloat(bits);
    };
    const Tile &a = Get().a[kHalf], &b = Get().b[kTile];
    for (uint32_t row = 0; row < Get().rows[kHalf]; ++row) {
      for (uint32_t n = 0; n < 16; ++n) {
        float first = 0, second = 0;
        for (uint32_t k = 0; k < 16; ++k) {
          first += element(a, row, 2 * k) * element(b, k, 2 * n);
          second += element(a, row, 2 * k + 1) * element(b, k, 2 * n + 1);
        }
        std::byte* const at = Get().sums[kHalf][kTile][row].data() + n * sizeof(float);
        float sum = 0;
        std::memcpy(&sum, at, sizeof(sum));
        sum += first + second;
        std::memcpy(at, &sum, sizeof(sum));
      }
    }
  }
  template <uint32_t kHalf, uint32_t kTile>
  static void StoreSums(float* to, uint64_t stride_bytes) {
    for (uint32_t row = 0; row < Get().rows[kHalf]; ++row) {
      std::memcpy(reinterpret_cast<std::byte*>(to) + row * stride_bytes,
                  Get().sums[kHalf][kTile][row].data(), 64);
    }
  }
};

}  // namespace kvbed
