// Rows of results as bench and sweep write them, with made-up figures, for pages to show.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvbed {

using SampleJson = nlohmann::ordered_json;

struct BenchSample {
  std::string store = "slab:/data/kv";
  std::string label;  // none when empty
  uint64_t ctx_tokens = 1024;
  double restore_gb_per_s = 2;
  double offload_gb_per_s = 1.5;
  double spread = 0.03;
};

inline SampleJson SampleEnvironment() {
  return {{"cpu", "Example CPU"},
          {"cores", 8},
          {"memory_bytes", uint64_t{32} << 30},
          {"fs_type", "ext4"},
          {"block_devices", {{{"name", "nvme0n1"}, {"model", "Example SSD"}}}},
          {"governor", nullptr},
          {"governor_reason", "no cpufreq in sysfs"},
          {"libraries", {{"liburing", "2.3"}}}};
}

// Five repetitions around the rate.
inline SampleJson SampleSide(double gb_per_s, double bytes, double spread) {
  const double ns = bytes / gb_per_s;
  return {{"median_ns", uint64_t(ns)},
          {"min_ns", uint64_t(ns * (1 - spread))},
          {"max_ns", uint64_t(ns * (1 + spread))},
          {"cv", spread},
          {"gb_per_s", gb_per_s},
          {"cpu_s_per_gb", 0.12},
          {"hash_s_per_gb", 0.10},
          {"lat_ns",
           {{"p50", 400000},
            {"p99", 2500000},
            {"p99_9", nullptr},
            {"p99_9_reason", "only 320 records were timed"},
            {"n", 320}}}};
}

inline SampleJson SampleCeiling(const BenchSample& sample) {
  return {{"write_gb_per_s", 1.6},
          {"read_gb_per_s", 1.9},
          {"write_efficiency", sample.offload_gb_per_s / 1.6},
          {"read_efficiency", sample.restore_gb_per_s / 1.9},
          {"fio_job", "[read]\nrw=read\n"},
          {"huge_read_gb_per_s", nullptr},
          {"huge_read_gb_per_s_reason", "no hugetlb memory"},
          {"huge_write_gb_per_s", nullptr},
          {"huge_write_gb_per_s_reason", "no hugetlb memory"},
          {"raw_write_gb_per_s", 2.1},
          {"raw_read_gb_per_s", 2.2},
          {"raw_write_efficiency", sample.offload_gb_per_s / 2.1},
          {"raw_read_efficiency", sample.restore_gb_per_s / 2.2}};
}

inline SampleJson BenchSampleRow(const BenchSample& sample) {
  const double bytes = static_cast<double>(sample.ctx_tokens) * 131072;
  SampleJson row = {{"schema", "kvbed-bench/1"},
                    {"argv", {"kvbed", "bench", "--shape", "llama3-8b"}},
                    {"started_at", "2026-01-31T12:00:00.000Z"},
                    {"env", SampleEnvironment()},
                    {"model", {{"name", "llama3-8b"}, {"dtype", "bf16"}}},
                    {"status", "ok"},
                    {"reasons", SampleJson::array()}};
  row["cell"] = {{"ctx_tokens", sample.ctx_tokens},
                 {"store", sample.store},
                 {"record_bytes", 2101248},
                 {"iodepth", 16},
                 {"direct", true},
                 {"durability", "D1"}};
  if (!sample.label.empty()) row["cell"]["label"] = sample.label;
  row["bytes"] = {{"stored", uint64_t(bytes)}, {"device_ratio", 1.0}, {"proof", "sectors"}};
  row["offload"] = SampleSide(sample.offload_gb_per_s, bytes, sample.spread);
  row["restore"] = SampleSide(sample.restore_gb_per_s, bytes, sample.spread);
  row["ttft"] = nullptr;
  row["ttft_reason"] = "no model ran";
  row["ceiling"] = SampleCeiling(sample);
  row["verify"] = {{"status", "equal"}};
  row["noisy"] = sample.spread > 0.1;
  row["publishable"] = sample.spread <= 0.1;
  return row;
}

// A restore has a fixed cost of 30 ms; recomputing takes time for each token and the square of it.
inline SampleJson WithTtft(SampleJson row) {
  const double tokens = row["cell"]["ctx_tokens"].get<double>();
  const double read = row["restore"]["median_ns"].get<double>();
  const double prefill = tokens * 6e4 + tokens * tokens * 4;
  row["ttft"] = {{"restore",
                  {{"lookup_ns", 1000000},
                   {"read_ns", uint64_t(read)},
                   {"verify_ns", uint64_t(read / 4)},
                   {"first_decode_ns", 29000000},
                   {"overlap_ns", uint64_t(read / 5)},
                   {"total_ns", uint64_t(30000000 + read * 1.05)}}},
                 {"recompute",
                  {{"prefill_ns", uint64_t(prefill)},
                   {"first_decode_ns", 29000000},
                   {"total_ns", uint64_t(prefill)},
                   {"device", "CPU"},
                   {"given", false}}},
                 {"in_memory", {{"total_ns", 29000000}}},
                 {"ram_copy", {{"total_ns", uint64_t(29000000 + read / 6)}}}};
  row.erase("ttft_reason");
  return row;
}

// Restored again beside an offload at 0.5 GB/s, half as fast.
inline SampleJson WithMix(SampleJson row) {
  const auto restore_ns = row["restore"]["median_ns"].get<uint64_t>();
  row["mix"] = {
      {"offload_gb_per_s_asked", 0.5},
      {"offload_gb_per_s", 0.49},
      {"restore_gb_per_s", row["restore"]["gb_per_s"].get<double>() / 2},
      {"samples_ns", {2 * restore_ns - 1000000, 2 * restore_ns, 2 * restore_ns + 1000000}},
      {"lat_ns", {{"p50", 900000}, {"p99", 7654321}, {"p99_9", nullptr}}},
      {"alone_lat_ns", row["restore"]["lat_ns"]}};
  row["mix"]["lat_ns"]["p99_9_reason"] = "only 320 records were timed";
  return row;
}

// Offloads became slower for some rounds; restores were steady from the first one on.
inline SampleJson WithRounds(SampleJson row, const std::string& state) {
  row["cell"]["profile"] = "steady";
  row["steady"] = {{"state", state}, {"rounds", 8}, {"rounds_max", 25}};
  row["interval_gb_per_s"] = {3.0, 2.4, 2.0, 1.6, 1.5, 1.5, 1.5, state == "reached" ? 1.5 : 0.5};
  row["interval_restore_gb_per_s"] = {2.0, 2.0, 2.0, 2.0, 2.1, 2.0, 2.0, 1.9};
  return row;
}

inline SampleJson Failed(SampleJson row, const std::string& why) {
  row["status"] = "failed";
  row["reasons"] = {why};
  row["publishable"] = false;
  row["restore"] = nullptr;
  row["restore_reason"] = why;
  return row;
}

inline SampleJson SweepSampleRow(const std::string& op, uint64_t bs_bytes, uint32_t iodepth) {
  const double depth = iodepth;
  const double gb_per_s = 2.4 * depth / (depth + 3e6 / static_cast<double>(bs_bytes + 400000));
  return {{"schema", "kvbed-sweep/1"},
          {"env", SampleEnvironment()},
          {"status", "ok"},
          {"reasons", SampleJson::array()},
          {"cell",
           {{"op", op},
            {"bs_bytes", bs_bytes},
            {"iodepth", iodepth},
            {"ioengine", "io_uring"},
            {"direct", true},
            {"registered", true},
            {"store", "slab:/data/kv"}}},
          {"gb_per_s", gb_per_s},
          {"lat_ns",
           {{"p50", uint64_t(static_cast<double>(bs_bytes) * depth / gb_per_s)},
            {"p99", nullptr},
            {"p99_reason", "only 64 requests were timed"}}}};
}

inline std::vector<SampleJson> SweepSampleRows() {
  std::vector<SampleJson> rows;
  for (const char* op : {"read", "write"}) {
    for (uint64_t bs_bytes = 64 << 10; bs_bytes <= 4 << 20; bs_bytes *= 2) {
      for (uint32_t iodepth : {1u, 4u, 16u, 64u}) {
        rows.push_back(SweepSampleRow(op, bs_bytes, iodepth));
      }
    }
  }
  return rows;
}

// Two labels, two stores, five contexts; one row failed, one is noisy.
inline std::vector<SampleJson> LadderSampleRows() {
  std::vector<SampleJson> rows;
  for (const char* label : {"old disk", "new disk"}) {
    // Restores gain more than the spread, offloads less.
    const bool is_new = label == std::string("new disk");
    for (const char* store : {"slab:/data/kv", "rocksdb:/data/db?wal=on"}) {
      const double slower = store == std::string("slab:/data/kv") ? 1 : 0.7;
      for (uint64_t ctx_tokens : {512, 1024, 2048, 4096, 8192}) {
        rows.push_back(
            WithTtft(BenchSampleRow({.store = store,
                                     .label = label,
                                     .ctx_tokens = ctx_tokens,
                                     .restore_gb_per_s = (is_new ? 2.4 : 1.9) * slower,
                                     .offload_gb_per_s = (is_new ? 1.52 : 1.5) * slower})));
      }
    }
  }
  rows[2]["noisy"] = true;
  rows[2]["reasons"] = {"noisy: the restore varies by 14 % (standard deviation)"};
  rows.back() = Failed(rows.back(), "record 7 differs at layer 3");
  return rows;
}

inline void WriteSampleRows(const std::string& path, const std::vector<SampleJson>& rows) {
  std::ofstream out(path);
  for (const SampleJson& row : rows) out << row.dump() << "\n";
}

}  // namespace kvbed
