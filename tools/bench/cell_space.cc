#include "tools/bench/cell_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "backends/disk_space.h"
#include "tools/block_device.h"
#include "tools/memory_room.h"

namespace kvbed {
namespace {

constexpr uint64_t kAgedCells = 4;

double GiB(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// In the store at once, ageing left out.
uint64_t SnapshotBytes(const BenchCell& cell) {
  return (cell.sets() + (cell.mix_gb_per_s ? 1 : 0)) * cell.stored_bytes();
}

// How many times the cell the store's filesystem must hold.
uint64_t CellsOnDisk(const BenchCell& cell) {
  return cell.sets() + (cell.mix_gb_per_s ? 1 : 0) + (cell.aged ? 3 : 2);
}

// Room that is left, none at worst.
uint64_t Less(uint64_t room_bytes, uint64_t taken_bytes) {
  return room_bytes - std::min(room_bytes, taken_bytes);
}

std::string NameOf(const BenchCell& cell) {
  return fmt::format("{} tokens of {}", cell.ctx_tokens, cell.shape.name);
}

}  // namespace

uint64_t DiskBytesNeeded(const BenchCell& cell) {
  if (cell.store.spec.kind == StoreKind::kMemory) return 0;
  return CellsOnDisk(cell) * cell.stored_bytes();
}

Status CheckCellFits(const BenchCell& cell) {
  const bool has_files = cell.store.spec.kind != StoreKind::kMemory;
  const uint64_t need_bytes = cell.stored_bytes();
  // A store without files keeps its records in memory too, a model's K and V are kept there, and
  // what is offloaded beside a restore has a pool of its own.
  const uint64_t pool_bytes = std::min(need_bytes, cell.pool_bytes.value_or(need_bytes));
  const uint64_t more_bytes = (has_files ? 0 : need_bytes) + (cell.from_model ? need_bytes : 0) +
                              (cell.mix_gb_per_s ? pool_bytes : 0);
  KVBED_RETURN_IF_ERROR(CheckMemoryFor(1, pool_bytes + more_bytes, NameOf(cell)));
  if (!has_files) return Status::Ok();
  const auto free_bytes = AvailableBytes(NearestExisting(cell.store.spec.path));
  const uint64_t times = CellsOnDisk(cell);
  if (!free_bytes.ok() || *free_bytes / times >= need_bytes) return Status::Ok();
  return Status::OutOfSpace(fmt::format(
      "{} need {} times {:.1f} GiB for snapshots, ceilings and first write, and {:.1f} GiB are "
      "free in {}: take a shorter context, a smaller working set or another place",
      NameOf(cell), times, GiB(need_bytes), GiB(*free_bytes), cell.store.spec.path));
}

Status CheckStoreRoom(const BenchCell& cell, const StoreInfo& store) {
  if (!cell.working_set_bytes && !cell.aged && !cell.mix_gb_per_s) return Status::Ok();
  // Memory without a limit says 0.
  if (cell.store.spec.kind == StoreKind::kMemory && store.capacity_bytes == 0) return Status::Ok();
  const uint64_t need_bytes = SnapshotBytes(cell) + (cell.aged ? cell.stored_bytes() : 0);
  if (need_bytes <= store.free_bytes) return Status::Ok();
  return Status::OutOfSpace(
      fmt::format("{} need room for {:.3f} GB of snapshots, and {} has room for {:.3f} GB",
                  NameOf(cell), static_cast<double>(need_bytes) / 1e9, store.spec,
                  static_cast<double>(store.free_bytes) / 1e9));
}

uint64_t AgedBytesWanted(const BenchCell& cell) {
  return cell.working_set_bytes.value_or(kAgedCells * cell.stored_bytes());
}

uint64_t AgedFillBytes(const BenchCell& cell, const StoreInfo& store) {
  const auto disk_bytes = AvailableBytes(NearestExisting(cell.store.spec.path));
  const uint64_t taken = SnapshotBytes(cell);
  uint64_t room = Less(store.free_bytes, taken);
  if (disk_bytes.ok()) {
    room = std::min(room, Less(*disk_bytes, taken + 2 * cell.stored_bytes()));
  }
  return std::min(AgedBytesWanted(cell), room);
}

}  // namespace kvbed
