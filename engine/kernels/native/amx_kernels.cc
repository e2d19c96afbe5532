// Compiled with AMX enabled; nothing here but MayUseAmxTiles runs before the CPU was asked.
// TDPBF16PS sums the products of the first and of the second elements of pairs apart, denormals
// taken for zero, and adds both sums to what was there (Intel's SDM, volume 2): other bits than
// VDPBF16PS gives, hence an arithmetic of its own.
#include "engine/kernels/native/amx_kernels.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/kernels/native/tile_products.h"

namespace kvbed {
namespace {

// Linux' asm/prctl.h, since 5.16.
constexpr long kArchReqXcompPerm = 0x1023;
constexpr long kXfeatureXtileData = 18;

bool CpuHasTiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  return (edx & kAmxBf16) != 0 && (edx & kAmxTile) != 0;
}

// Tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 packed tiles. The instructions take a tile's number
// as a literal.
struct AmxTiles {
  static void Configure(uint32_t low, uint32_t high) {
    struct alignas(64) {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    static_assert(sizeof(config) == 64);
    const auto set = [&config](int tile, uint32_t rows) {
      config.rows[tile] = static_cast<uint8_t>(rows);
      config.row_bytes[tile] = rows > 0 ? 64 : 0;
    };
    set(0, low);
    set(1, low);
    set(2, high);
    set(3, high);
    set(4, low);
    set(5, high);
    set(6, kDepthOfTile / 2);
    set(7, kDepthOfTile / 2);
    _tile_loadconfig(&config);
  }
  static void Release() { _tile_release(); }

  static void Zero(bool has_high) {
    _tile_zero(0);
    _tile_zero(1);
    if (!has_high) return;
    _tile_zero(2);
    _tile_zero(3);
  }
  template <uint32_t kHalf>
  static void LoadRows(const uint16_t* from, uint64_t stride_bytes) {
    if constexpr (kHalf == 0) _tile_loadd(4, from, stride_bytes);
    if constexpr (kHalf == 1) _tile_loadd(5, from, stride_bytes);
  }
  template <uint32_t kTile>
  static void LoadPacked(const uint16_t* from) {
    if constexpr (kTile == 0) _tile_loadd(6, from, 64);
    if constexpr (kTile == 1) _tile_loadd(7, from, 64);
  }
  template <uint32_t kHalf, uint32_t kTile>
  static void Add() {
    if constexpr (kHalf == 0 && kTile == 0) _tile_dpbf16ps(0, 4, 6);
    if constexpr (kHalf == 0 && kTile == 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kHalf == 1 && kTile == 0) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kHalf == 1 && kTile == 1) _tile_dpbf16ps(3, 5, 7);
  }
  template <uint32_t kHalf, uint32_t kTile>
  static void StoreSums(float* to, uint64_t stride_bytes) {
    if constexpr (kHalf == 0 && kTile == 0) _tile_stored(0, to, stride_bytes);
    if constexpr (kHalf == 0 && kTile == 1) _tile_stored(1, to, stride_bytes);
    if constexpr (kHalf == 1 && kTile == 0) _tile_stored(2, to, stride_bytes);
    if constexpr (kHalf == 1 && kTile == 1) _tile_stored(3, to, stride_bytes);
  }
};

}  // namespace

bool MayUseAmxTiles() {
  static const bool may =
      CpuHasTiles() && ::syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtileData) == 0;
  return may;
}

KernelTable AmxTable(const KernelTable& base) {
  KernelTable table = base;
  table.name = table.arithmetic = "amx_bf16";
  table.multiply = MultiplyByTiles<AmxTiles>;
  return table;
}

}  // namespace kvbed
