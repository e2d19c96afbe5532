#include "tools/bench/dry_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/bench/cell_space.h"

namespace kvbed {
namespace {

// At most, of everything that a cell moves.
double MovedBytes(const BenchCell& cell) {
  const auto bytes = static_cast<double>(cell.stored_bytes());
  const double repetitions =
      cell.profile == BenchProfile::kSteady ? cell.rounds_max : cell.repetitions;
  const double sets = static_cast<double>(cell.sets());
  // Warm-up and repetitions, each written and read, and as much by each of two ceilings; then the
  // first writes.
  double times = 2 * (1 + 2) * (repetitions + 1) + 2.0 * cell.repetitions;
  times += cell.profile == BenchProfile::kSteady ? 2 * sets : sets - 1;
  if (cell.cache == CacheState::kWarm) times += repetitions + 1;
  if (cell.mix_gb_per_s) times += 2 * repetitions;
  // Filled, and half of it again.
  return times * bytes + (cell.aged ? 1.5 * static_cast<double>(AgedBytesWanted(cell)) : 0);
}

double Gigabytes(const Json& bytes) { return bytes.get<double>() / 1e9; }

std::string CellText(const Json& cell) {
  const uint64_t ageing = cell.at("ageing_bytes").get<uint64_t>();
  return fmt::format(
      "{}, {} tokens, {}: {} records of {} bytes, {:.3f} GB; at most {:.1f} GB are moved; needs "
      "{:.3f} GB of disk{}\n",
      cell.at("model").get<std::string>(), cell.at("ctx_tokens").get<uint64_t>(),
      cell.at("store").get<std::string>(), cell.at("records").get<uint64_t>(),
      cell.at("record_bytes").get<uint64_t>(), Gigabytes(cell.at("stored_bytes")),
      Gigabytes(cell.at("moved_bytes_most")), Gigabytes(cell.at("disk_bytes")),
      ageing == 0 ? ""
                  : fmt::format(", and takes up to {:.3f} GB more for ageing",
                                static_cast<double>(ageing) / 1e9));
}

}  // namespace

Json BenchPlanJson(std::span<const BenchCell> cells) {
  Json out;
  out["schema"] = "kvbed-bench-plan/1";
  out["cells"] = Json::array();
  double moved = 0;
  for (const BenchCell& cell : cells) {
    Json one;
    one["model"] = cell.shape.name;
    one["ctx_tokens"] = cell.ctx_tokens;
    one["store"] = cell.store.spec.ToString();
    one["records"] = cell.blocks();
    one["record_bytes"] = cell.geometry.record_bytes();
    one["stored_bytes"] = cell.stored_bytes();
    one["moved_bytes_most"] = static_cast<uint64_t>(MovedBytes(cell));
    one["disk_bytes"] = DiskBytesNeeded(cell);
    one["ageing_bytes"] = cell.aged ? AgedBytesWanted(cell) : uint64_t{0};
    moved += MovedBytes(cell);
    out["cells"].push_back(std::move(one));
  }
  out["moved_bytes_most"] = static_cast<uint64_t>(moved);
  return out;
}

std::string BenchPlanText(const Json& plan) {
  std::string text;
  for (const Json& cell : plan.at("cells")) text += CellText(cell);
  return text + fmt::format("{} cells, at most {:.1f} GB in all; nothing was written (--dry-run)\n",
                            plan.at("cells").size(), Gigabytes(plan.at("moved_bytes_most")));
}

}  // namespace kvbed
