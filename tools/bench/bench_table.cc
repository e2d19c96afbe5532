#include "tools/bench/bench_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "tools/bench/row_fields.h"
#include "tools/console.h"

namespace kvbed {
namespace {

constexpr RowColumn kColumns[] = {
    {"shape", "shape", "/model/name", -1},
    {"ctx", "ctx_tokens", "/cell/ctx_tokens", -1},
    {"store", "store", "/cell/store", -1},
    {"cache", "cache_mode", "/cell/cache_mode", -1},
    {"record bytes", "record_bytes", "/cell/record_bytes", -1},
    {"offload GB/s", "offload_gb_per_s", "/offload/gb_per_s", 3},
    {"of fio", "write_efficiency", "/ceiling/write_efficiency", 3},
    {"of raw", "raw_write_efficiency", "/ceiling/raw_write_efficiency", 3},
    {"CPU s/GB", "offload_cpu_s_per_gb", "/offload/cpu_s_per_gb", 3},
    {"first write GB/s", "first_write_gb_per_s", "/offload_first_write/gb_per_s", 3},
    {"of fio", "first_write_efficiency", "/offload_first_write/efficiency", 3},
    {"restore GB/s", "restore_gb_per_s", "/restore/gb_per_s", 3},
    {"of fio", "read_efficiency", "/ceiling/read_efficiency", 3},
    {"of raw", "raw_read_efficiency", "/ceiling/raw_read_efficiency", 3},
    {"CPU s/GB", "restore_cpu_s_per_gb", "/restore/cpu_s_per_gb", 3},
    {"TTFT restore s", "ttft_restore_ns", "/ttft/restore/total_ns", -2},
    {"recompute s", "ttft_recompute_ns", "/ttft/recompute/total_ns", -2},
    {"in memory s", "ttft_in_memory_ns", "/ttft/in_memory/total_ns", -2},
    {"break-even GB/s", "break_even_gb_per_s", "/break_even/bandwidth_gb_per_s", 3},
    {"written/stored", "write_amplification", "/bytes/write_amplification", 3},
    {"filesystem", "fs_type", "/store/fs_type", -1},
    {"proof", "proof", "/bytes/proof", -1},
    {"device bytes", "device_ratio", "/bytes/device_ratio", 3},
    {"store is", "design", "/store/design", -1},
    {"verify", "verify", "/verify/status", -1},
    {"status", "status", "/status", -1},
    {"publishable", "publishable", "/publishable", -1},
    {nullptr, "label", "/cell/label", -1},
};

// "2.31 GB/s (1.08 x fio, 0.96 x raw), 0.09 CPU s/GB, spread 3 %"
std::string DirectionText(const Json& row, const std::string& side, const std::string& verb) {
  const std::string at = "/" + side;
  if (FindField(row, at.c_str()) == nullptr) {
    return "not measured: " + ShownText(row, (at + "_reason").c_str(), -1, "");
  }
  const auto number = [&](const std::string& path, int digits) {
    return ShownText(row, path.c_str(), digits, "?");
  };
  const Json* cv = FindField(row, (at + "/cv").c_str());
  return fmt::format("{} GB/s ({} x fio, {} x raw), {} CPU s/GB, spread {:.0f} %",
                     number(at + "/gb_per_s", 2), number("/ceiling/" + verb + "_efficiency", 2),
                     number("/ceiling/raw_" + verb + "_efficiency", 2),
                     number(at + "/cpu_s_per_gb", 3), 100 * (cv ? cv->get<double>() : 0));
}

// "ext4 on sda, sdb (md raid1)", "tmpfs: memory, not a disk".
std::string StorageText(const Json& row) {
  const std::string fs_type = ShownText(row, "/store/fs_type", -1, "no filesystem");
  if (const Json* memory = FindField(row, "/bytes/memory")) {
    const auto name = memory->get<std::string>();
    return fmt::format("{}: memory, not a disk", name == fs_type ? name : fs_type + " on " + name);
  }
  const Json* devices = FindField(row, "/bytes/devices");
  if (devices == nullptr || devices->empty()) {
    return fmt::format("{}, and no device in sight: {}", fs_type,
                       ShownText(row, "/bytes/proof_reason", -1, "?"));
  }
  const std::string redundancy = ShownText(row, "/bytes/redundancy", -1, "");
  return fmt::format(
      "{} on {}{}", fs_type,
      Printable(fmt::format("{}", fmt::join(devices->get<std::vector<std::string>>(), ", "))),
      redundancy.empty() ? "" : " (" + redundancy + ")");
}

std::string Seconds(const Json& row, const char* path) {
  return FindField(row, path) != nullptr ? ShownText(row, path, kNsInSeconds, "") + " s"
                                         : "not measured";
}

// What a restore is worth; nothing where there is nothing to compare it with.
std::string WorthText(const Json& row) {
  if (FindField(row, "/break_even/seconds_saved") == nullptr) return "";
  return fmt::format(
      "  first token:   restored {}, copied in memory {}, in memory {}, recomputed {} ({})\n"
      "  break-even:    {} GB/s; a restore saves {} s\n",
      FindField(row, "/ttft/restore") != nullptr
          ? Seconds(row, "/ttft/restore/total_ns")
          : Seconds(row, "/restore/median_ns") + " without a decode call",
      Seconds(row, "/ttft/ram_copy/total_ns"), Seconds(row, "/ttft/in_memory/total_ns"),
      Seconds(row, "/ttft/recompute/total_ns"), ShownText(row, "/ttft/recompute/device", -1, "?"),
      ShownText(row, "/break_even/bandwidth_gb_per_s", 3, "?"),
      ShownText(row, "/break_even/seconds_saved", 3, "?"));
}

// "profile steady (reached, 7 rounds), cache direct, aged, working set 64.000 GB (2.0 x memory)"
std::string ConditionsText(const Json& row) {
  const auto text = [&](const char* path, int digits = -1) {
    return ShownText(row, path, digits, "?");
  };
  std::string out = "profile " + text("/cell/profile");
  if (FindField(row, "/steady/rounds") != nullptr) {
    out += fmt::format(" ({}, {} rounds)", text("/steady/state"), text("/steady/rounds"));
  }
  if (FindField(row, "/cell/cache_mode") != nullptr) out += ", cache " + text("/cell/cache_mode");
  if (FindField(row, "/aged") != nullptr) out += ", aged";
  if (const Json* bytes = FindField(row, "/working_set/bytes")) {
    out += fmt::format(", working set {:.3f} GB ({} x memory)", bytes->get<double>() / 1e9,
                       text("/working_set/of_memory", 2));
  }
  return out;
}

}  // namespace

std::string BenchRowText(const Json& row) {
  const auto text = [&](const char* path, int digits = -1) {
    return ShownText(row, path, digits, "?");
  };
  const Json* stored = FindField(row, "/bytes/stored");
  std::string out =
      fmt::format("{}, {} tokens, {}: {} records of {} bytes, {:.3f} GB\n", text("/model/name"),
                  text("/cell/ctx_tokens"), text("/cell/store"), text("/cell/blocks"),
                  text("/cell/record_bytes"), stored ? stored->get<double>() / 1e9 : 0);
  out += fmt::format("  storage:       {}\n", StorageText(row));
  out += fmt::format("  the store:     {}; {} bytes written for each stored\n",
                     text("/store/design"), text("/bytes/write_amplification", 3));
  out += fmt::format("  conditions:    {}\n", ConditionsText(row));
  out += fmt::format("  offload to {}: {}\n", text("/cell/durability"),
                     DirectionText(row, "offload", "write"));
  out +=
      fmt::format("  first write:   {} GB/s ({} x fio)\n", text("/offload_first_write/gb_per_s", 2),
                  text("/offload_first_write/efficiency", 2));
  out += fmt::format("  restore:       {}, verified: {}\n", DirectionText(row, "restore", "read"),
                     text("/verify/status"));
  out += WorthText(row);
  if (FindField(row, "/mix") != nullptr) {
    out +=
        fmt::format("  in a mix:      {} GB/s restored beside {} GB/s offloaded ({} asked for)\n",
                    text("/mix/restore_gb_per_s", 2), text("/mix/offload_gb_per_s", 2),
                    text("/mix/offload_gb_per_s_asked", 2));
  }
  out +=
      fmt::format("  fio:           {} GB/s written, {} read; raw {} and {}; null {} and {}\n",
                  text("/ceiling/write_gb_per_s", 2), text("/ceiling/read_gb_per_s", 2),
                  text("/ceiling/raw_write_gb_per_s", 2), text("/ceiling/raw_read_gb_per_s", 2),
                  text("/ceiling/null_write_gb_per_s", 2), text("/ceiling/null_read_gb_per_s", 2));
  out += fmt::format("  device moved:  {} of what was read, {} of what was written ({})\n",
                     text("/bytes/device_read_ratio", 3), text("/bytes/device_write_ratio", 3),
                     text("/bytes/proof"));
  out += fmt::format("  status:        {}{}\n", text("/status"),
                     row.at("publishable").get<bool>() ? ", publishable" : ", not publishable:");
  for (const Json& reason : row.at("reasons")) {
    out += fmt::format("                 - {}\n", Printable(reason.get<std::string>()));
  }
  return out;
}

std::string BenchEnvironmentLine(const Json& row) {
  const auto text = [&](const char* path) { return ShownText(row, path, -1, "unknown"); };
  std::string place = FindField(row, "/env/fs_type") ? text("/env/fs_type") : "no filesystem";
  if (FindField(row, "/env/block_devices/0/name")) {
    place += " on " + text("/env/block_devices/0/name");
  }
  return fmt::format("{}, {}{}\n", MachineText(row), place,
                     FindField(row, "/cell/label") ? ", label " + text("/cell/label") : "");
}

RowColumns BenchColumns() { return {kColumns}; }

std::string BenchMarkdownNote(const Json& row) {
  std::vector<std::string> reasons;
  for (const Json& reason : row.at("reasons")) {
    reasons.push_back(Printable(reason.get<std::string>()));
  }
  if (reasons.empty()) return "";
  return fmt::format("- {}, {} tokens, {}: {}\n", ShownText(row, "/model/name", -1, "?"),
                     ShownText(row, "/cell/ctx_tokens", -1, "?"),
                     ShownText(row, "/cell/store", -1, "?"), fmt::join(reasons, "; "));
}

}  // namespace kvbed
