#include "tools/bench/load_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/cache_state.h"
#include "tools/bench/row_fields.h"
#include "tools/bench/statistics.h"
#include "tools/rates.h"

namespace kvbed {
namespace {

// Below this share of the rate that was asked for, a mix is another mix.
constexpr double kMixRateLeast = 0.9;
// Below this share from the device, a cache answered.
constexpr double kColdReadRatioLeast = 0.98;

std::string NotAsked(const char* option) { return fmt::format("not asked for ({})", option); }

std::string NotDone(const Measurement& m) {
  return m.failure.ok() ? "not measured" : m.failure.message();
}

void SetAged(Json& row, const Measurement& m) {
  if (!m.aged) {
    SetNull(row, "aged", m.cell.aged ? NotDone(m) : NotAsked("--aged"));
    return;
  }
  row["aged"] = {{"snapshots", m.aged->snapshots},
                 {"freed", m.aged->freed},
                 {"refilled", m.aged->refilled},
                 {"bytes", m.aged->bytes}};
}

void SetWorkingSet(Json& row, const Measurement& m, std::optional<uint64_t> memory_bytes) {
  if (m.working_set_bytes == 0) {
    SetNull(row, "working_set", m.cell.working_set_bytes ? NotDone(m) : NotAsked("--working-set"));
    return;
  }
  Json& out = row["working_set"];
  out["bytes"] = m.working_set_bytes;
  out["snapshots"] = m.cell.sets();
  std::optional<double> of_memory;
  if (memory_bytes) {
    of_memory = static_cast<double>(m.working_set_bytes) / static_cast<double>(*memory_bytes);
  }
  SetOrReason(out, "of_memory", of_memory, "the machine's memory isn't known");
}

// What the page cache's own count can't say: whether a store kept records in memory of its own.
std::string NotAsAsked(const Measurement& m) {
  const std::string not_in_state = NotInState(*m.cell.cache, m.cache);
  const uint64_t asked = m.bytes.app.read_bytes;
  if (!not_in_state.empty() || *m.cell.cache == CacheState::kWarm || !m.bytes.device ||
      asked == 0) {
    return not_in_state;
  }
  const double ratio = static_cast<double>(m.bytes.device->read_bytes) / static_cast<double>(asked);
  if (ratio >= kColdReadRatioLeast) return "";
  return fmt::format("not cold: the device read {:.3f} of what was asked for", ratio);
}

void SetCache(Json& row, const Measurement& m) {
  if (!m.cell.cache) {
    SetNull(row, "cache", NotAsked("--cache"));
  } else if (!m.cache) {
    SetNull(row, "cache", NotDone(m));
  } else {
    const auto [least, most] = std::ranges::minmax(m.cache->resident);
    row["cache"] = {
        {"state", NotAsAsked(m).empty() ? std::string(CacheStateName(*m.cell.cache))
                                        : fmt::format("not {}", CacheStateName(*m.cell.cache))},
        {"resident_share_min", least},
        {"resident_share_max", most},
        {"method", m.cache->method}};
  }
}

double MixOffloadRate(const MixSamples& mix) {
  return GbPerS(mix.offloaded_bytes, mix.offload_ns).value_or(0);
}

void SetMix(Json& row, const Measurement& m) {
  if (!m.mix) {
    SetNull(row, "mix", m.cell.mix_gb_per_s ? NotDone(m) : NotAsked("--mix"));
    return;
  }
  std::vector<double> restore;
  for (uint64_t ns : m.mix->restore_ns) {
    restore.push_back(GbPerS(m.cell.stored_bytes(), ns).value_or(0));
  }
  row["mix"] = {{"offload_gb_per_s_asked", *m.cell.mix_gb_per_s},
                {"offload_gb_per_s", MixOffloadRate(*m.mix)},
                {"restore_gb_per_s", Median(restore)},
                {"offload_snapshot_bytes", m.mix->snapshot_bytes},
                {"samples_ns", m.mix->restore_ns},
                {"lat_ns", LatencyJson(m.mix->latencies_ns, "records")},
                {"alone_lat_ns", LatencyJson(m.restore_latencies_ns, "records")}};
}

void SetSteady(Json& row, const Measurement& m) {
  Json& out = row["steady"];
  if (m.cell.profile != BenchProfile::kSteady) {
    const std::string reason = "judged under --profile steady only";
    out["state"] = "not_assessed";
    SetNull(out, "rounds", reason);
    SetNull(row, "interval_gb_per_s", reason);
    SetNull(row, "interval_restore_gb_per_s", reason);
    return;
  }
  out["state"] = m.steady ? "reached" : m.failure.ok() ? "not_reached" : "not_assessed";
  out["rounds"] = m.round_offload_gb_per_s.size();
  out["rounds_max"] = m.cell.rounds_max;
  row["interval_gb_per_s"] = m.round_offload_gb_per_s;
  row["interval_restore_gb_per_s"] = m.round_restore_gb_per_s;
}

}  // namespace

std::string_view BenchProfileName(BenchProfile profile) {
  switch (profile) {
    case BenchProfile::kCi: return "ci";
    case BenchProfile::kBench: return "bench";
    case BenchProfile::kSteady: return "steady";
  }
  return "";
}

std::string_view CacheStateName(CacheState state) {
  return state == CacheState::kWarm ? "warm" : "cold";
}

void SetConditions(Json& cell, const Measurement& m) {
  cell["profile"] = std::string(BenchProfileName(m.cell.profile));
  if (m.cell.cache) {
    cell["cache_mode"] = std::string(CacheStateName(*m.cell.cache));
  } else if (m.store.direct) {
    cell["cache_mode"] = "direct";
  } else if (m.store.fs_type.empty()) {
    SetNull(cell, "cache_mode", "the store has no files");
  } else {
    SetNull(cell, "cache_mode", "not direct, and what the page cache held is not known (--cache)");
  }
}

void SetLoad(Json& row, const Measurement& m, std::optional<uint64_t> memory_bytes) {
  SetAged(row, m);
  SetWorkingSet(row, m, memory_bytes);
  SetCache(row, m);
  SetMix(row, m);
  SetSteady(row, m);
}

std::vector<std::string> LoadRemarks(const Measurement& m) {
  std::vector<std::string> remarks;
  if (m.cell.profile == BenchProfile::kCi) {
    remarks.push_back("profile ci: too little is moved for a figure to mean anything");
  }
  if (m.cell.profile == BenchProfile::kSteady && !m.steady) {
    remarks.push_back(fmt::format("no steady state in {} rounds", m.round_offload_gb_per_s.size()));
  }
  if (m.cell.cache) {
    const std::string not_as_asked = NotAsAsked(m);
    if (!not_as_asked.empty()) remarks.push_back(not_as_asked);
  }
  if (m.mix && MixOffloadRate(*m.mix) < kMixRateLeast * *m.cell.mix_gb_per_s) {
    remarks.push_back(fmt::format("mix: {:.3f} GB/s were offloaded and {:.3f} asked for",
                                  MixOffloadRate(*m.mix), *m.cell.mix_gb_per_s));
  }
  return remarks;
}

}  // namespace kvbed
