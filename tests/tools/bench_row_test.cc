// A benchmark's row: its names are fixed, its ratios are those of pairs, and each rule that makes
// it fail or keeps it from being published has a measurement that breaks just that rule.
#include "tools/bench/bench_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "tests/support/json_names.h"
#include "tests/support/status_matchers.h"
#include "tools/bench/bench_table.h"

namespace kvbed {
namespace {

// Five repetitions at 2 GB/s written and 4 GB/s read, twice fio's rate, all rules kept.
Measurement Good() {
  Measurement m;
  m.cell.shape = *FindBenchShape("smollm2-135m");
  m.cell.geometry = m.cell.shape.Geometry(DType::kBf16, 16);
  m.cell.ctx_tokens = 47104;
  m.cell.store.spec.path = "/";
  m.store.kind = "slab";
  m.store.fs_type = "ext4";
  m.store.overwrites = true;
  m.store.direct = true;
  m.overwrite = true;
  const uint64_t bytes = m.cell.stored_bytes();
  for (int i = 0; i < 5; ++i) {
    m.offload.push_back({.d0_ns = bytes / 3,
                         .d1_ns = bytes / 2,
                         .d2_ns = bytes,
                         .cpu_ns = bytes / 10,
                         .hash_ns = bytes / 20,
                         .first_done_ns = 1,
                         .last_done_ns = bytes / 3});
    m.restore.push_back({.wall_ns = bytes / 4,
                         .verify_ns = bytes / 20,
                         .overlap_ns = bytes / 30,
                         .cpu_ns = bytes / 10,
                         .first_done_ns = 1,
                         .last_done_ns = bytes / 4});
  }
  m.fio = {.write = {1, 1, 1, 1, 1}, .read = {2, 2, 2, 2, 2}, .reason = {}};
  m.fio_cpu_s_per_gb = {0.05};
  m.fio_huge.reason = "none free";
  m.raw = {.write = {2.5, 2.5, 2.5, 2.5, 2.5}, .read = {5, 5, 5, 5, 5}, .reason = {}};
  m.fio_job = "[write]\n";
  m.first_write_gb_per_s = {1, 2, 3};
  m.first_write_fio_gb_per_s = {1, 1, 1};
  m.null_write_gb_per_s = 10;
  m.null_read_gb_per_s = 8;
  m.bytes.direct = true;
  m.bytes.app = {5 * bytes, 5 * bytes};
  m.bytes.process = m.bytes.device = m.bytes.app;
  m.bytes.source = CounterSource::kSectors;
  m.verified_blocks = 5 * m.cell.blocks();
  return m;
}

BenchRow RowOf(const Measurement& m) { return MakeBenchRow(m, {{"kvbed", "bench"}, 0}); }

std::string Reasons(const BenchRow& row) { return row.json["reasons"].dump(); }

TEST(BenchRow, HasTheFixedNames) {
  const Json row = RowOf(Good()).json;
  EXPECT_EQ(row["schema"], "kvbed-bench/1");
  EXPECT_TRUE(HasNames(row, {"schema",     "kvbed_version",
                             "argv",       "seed",
                             "started_at", "env",
                             "model",      "status",
                             "reasons",    "cell",
                             "store",      "bytes",
                             "offload",    "offload_first_write",
                             "restore",    "ttft",
                             "break_even", "ceiling",
                             "steady",     "interval_gb_per_s",
                             "verify",     "noisy",
                             "tool_bound", "publishable"}));
  EXPECT_TRUE(HasNames(
      row["cell"],
      {"ctx_tokens", "store", "block_tokens", "record_bytes", "iodepth", "numjobs", "sequences",
       "ranks", "direct", "kv", "durability", "file_state", "profile", "cache_mode", "label"}));
  EXPECT_TRUE(HasNames(
      row["bytes"],
      {"kv", "stored", "app_read", "app_written", "proc_read", "proc_written", "device_read",
       "device_written", "device_read_ratio", "device_write_ratio", "device_ratio", "proof",
       "write_amplification", "dup4k_pct", "zstd_ratio", "other_io"}));
  EXPECT_TRUE(HasNames(
      row["offload"],
      {"samples_ns", "median_ns", "min_ns", "max_ns", "cv", "d0_ns", "d1_ns", "d2_ns", "gb_per_s",
       "kv_gb_per_s", "cpu_s_per_gb", "hash_s_per_gb", "first_done_ns", "last_done_ns", "lat_ns"}));
  EXPECT_TRUE(HasNames(row["offload"]["lat_ns"], {"p50", "p99", "p99_9"}));
  EXPECT_TRUE(HasNames(row["offload_first_write"], {"gb_per_s", "efficiency"}));
  EXPECT_TRUE(HasNames(
      row["restore"], {"samples_ns", "median_ns", "min_ns", "max_ns", "cv", "gb_per_s",
                       "kv_gb_per_s", "cpu_s_per_gb", "hash_s_per_gb", "verify_ns",
                       "prefill_tokens_after_restore", "first_done_ns", "last_done_ns", "lat_ns"}));
  EXPECT_TRUE(HasNames(
      row["ceiling"],
      {"write_gb_per_s", "read_gb_per_s", "write_efficiency", "read_efficiency", "cpu_s_per_gb",
       "fio_job", "reason", "huge_write_gb_per_s", "huge_read_gb_per_s", "raw_write_gb_per_s",
       "raw_read_gb_per_s", "raw_write_efficiency", "raw_read_efficiency", "best_write_efficiency",
       "best_read_efficiency", "null_records_per_s"}));
  EXPECT_TRUE(HasNames(row["steady"], {"state", "rounds"}));
  EXPECT_TRUE(HasNames(row["verify"], {"status", "blocks", "findings"}));
  for (const char* part : {"cell", "offload", "offload_first_write", "restore", "steady"}) {
    EXPECT_TRUE(NullsHaveReasons(row[part])) << part;
  }
}

TEST(BenchRow, TellsWhatWasMeasured) {
  const BenchRow row = RowOf(Good());
  const Json& json = row.json;
  EXPECT_TRUE(row.publishable) << Reasons(row);
  EXPECT_EQ(json["status"], "ok");
  EXPECT_EQ(json["cell"]["record_bytes"], 372736);
  EXPECT_EQ(json["cell"]["file_state"], "overwrite");
  EXPECT_EQ(json["cell"]["durability"], "D1");
  EXPECT_NEAR(json["offload"]["gb_per_s"].get<double>(), 2, 1e-6) << "to D1, not to D0";
  EXPECT_NEAR(json["restore"]["gb_per_s"].get<double>(), 4, 1e-6);
  EXPECT_NEAR(json["offload"]["cpu_s_per_gb"].get<double>(), 0.1, 1e-6);
  EXPECT_NEAR(json["offload"]["kv_gb_per_s"].get<double>(), 2.0 * 368640 / 372736, 1e-6);
  const Json& ceiling = json["ceiling"];
  EXPECT_NEAR(ceiling["write_efficiency"].get<double>(), 2, 1e-6);
  EXPECT_NEAR(ceiling["raw_read_efficiency"].get<double>(), 0.8, 1e-6);
  EXPECT_EQ(ceiling["best_read"], "raw");
  EXPECT_NEAR(ceiling["best_read_efficiency"].get<double>(), 0.8, 1e-6);
  EXPECT_NEAR(ceiling["null_records_per_s"].get<double>(), 8e9 / 372736, 1);
  EXPECT_EQ(ceiling["huge_read_gb_per_s"], nullptr);
  EXPECT_EQ(ceiling["huge_read_gb_per_s_reason"], "none free");
  EXPECT_EQ(json["offload_first_write"]["efficiency"], 2);
  EXPECT_EQ(json["verify"]["status"], "equal");
}

TEST(BenchRow, EfficiencyIsTheMedianOfPairsAndNotTheRatioOfMedians) {
  Measurement m = Good();
  const uint64_t bytes = m.cell.stored_bytes();
  m.offload.resize(3);
  for (size_t i = 0; i < 3; ++i) m.offload[i].d1_ns = bytes / (i + 1);  // 1, 2, 3 GB/s
  m.fio.write = {3, 1, 2};                                              // pairs: 1/3, 2, 1.5
  EXPECT_NEAR(RowOf(m).json["ceiling"]["write_efficiency"].get<double>(), 1.5, 1e-6);
  m.fio.write = {3, 1};
  EXPECT_EQ(RowOf(m).json["ceiling"]["write_efficiency"], nullptr) << "a pair is missing";
}

// The one reason for which a row can't be published.
struct Broken {
  const char* name;
  void (*breaks)(Measurement&);
  const char* reason;
};

class BrokenRule : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenRule, KeepsTheRowFromBeingPublished) {
  Measurement m = Good();
  GetParam().breaks(m);
  const BenchRow row = RowOf(m);
  EXPECT_FALSE(row.publishable);
  EXPECT_FALSE(row.failed_check);
  EXPECT_FALSE(row.failed_io);
  EXPECT_EQ(row.json["status"], "ok");
  ASSERT_EQ(row.json["reasons"].size(), 1u) << Reasons(row);
  EXPECT_NE(Reasons(row).find(GetParam().reason), std::string::npos) << Reasons(row);
}

INSTANTIATE_TEST_SUITE_P(
    BenchRow, BrokenRule,
    ::testing::Values(
        Broken{"NoisyOffload", [](Measurement& m) { m.offload[0].d1_ns *= 2; }, "noisy"},
        Broken{"NoisyRestore", [](Measurement& m) { m.restore[0].wall_ns *= 2; }, "noisy"},
        Broken{"FewRepetitions", [](Measurement& m) { m.cell.repetitions = 4; }, "at least 5"},
        Broken{"NoFio",
               [](Measurement& m) { m.fio = {.write = {}, .read = {}, .reason = "not installed"}; },
               "not installed"},
        Broken{"NotDurable", [](Measurement& m) { m.cell.store.settings.sync = SyncMode::kNone; },
               "sync=none"},
        Broken{"FreshSlots", [](Measurement& m) { m.overwrite = false; }, "not written before"},
        Broken{"ToolBoundWrites", [](Measurement& m) { m.null_write_gb_per_s = 3; }, "tool-bound"},
        Broken{"ToolBoundReads", [](Measurement& m) { m.null_read_gb_per_s = 6; }, "tool-bound"},
        Broken{"Buffered", [](Measurement& m) { m.bytes.direct = false; }, "not direct"},
        Broken{"NoProof",
               [](Measurement& m) {
                 m.bytes.source = CounterSource::kUnavailable;
                 m.bytes.device.reset();
                 m.bytes.source_reason = "tmpfs";
               },
               "no proof"},
        Broken{"WeakProof", [](Measurement& m) { m.bytes.weakness = "llite"; }, "weak proof"},
        Broken{"Tmpfs",
               [](Measurement& m) {
                 m.bytes.memory = "tmpfs";
                 m.bytes.source = CounterSource::kUnavailable;
                 m.bytes.device.reset();
                 m.bytes.source_reason = "tmpfs";
               },
               "tmpfs is memory and not a disk"},
        Broken{"MemoryDevice", [](Measurement& m) { m.bytes.memory = "zram0"; },
               "zram0 is memory and not a disk"},
        Broken{"TooLittle", [](Measurement& m) { m.cell.profile = BenchProfile::kCi; },
               "too little"},
        Broken{"NotSteady",
               [](Measurement& m) {
                 m.cell.profile = BenchProfile::kSteady;
                 m.round_offload_gb_per_s = m.round_restore_gb_per_s = {1, 2, 3, 4, 5, 6};
               },
               "no steady state in 6 rounds"},
        Broken{"NotCold",
               [](Measurement& m) {
                 m.cell.cache = CacheState::kCold;
                 m.cache = CacheSamples{.resident = {0, 0.5}, .method = "mincore"};
               },
               "not cold: the page cache held 50.0 %"},
        Broken{"NotTheMixThatWasAskedFor",
               [](Measurement& m) {
                 m.cell.mix_gb_per_s = 1;
                 m.mix = MixSamples{.offloaded_bytes = 1000,
                                    .offload_ns = 2000,
                                    .restore_ns = {10},
                                    .latencies_ns = {}};
               },
               "mix: 0.500 GB/s were offloaded and 1.000 asked for"},
        Broken{"OtherIo",
               [](Measurement& m) {
                 m.bytes.device->read_bytes *= 2;
                 m.bytes.process.reset();
               },
               "other I/O"}),
    [](const auto& test) { return test.param.name; });

TEST(BenchRow, SaysUnderWhatConditionsItWasMeasured) {
  Measurement m = Good();
  Json row = RowOf(m).json;
  EXPECT_EQ(row["cell"]["profile"], "bench");
  EXPECT_EQ(row["cell"]["cache_mode"], "direct");
  for (const char* name : {"aged", "working_set", "cache", "mix", "interval_gb_per_s"}) {
    EXPECT_EQ(row[name], nullptr) << name;
    EXPECT_TRUE(row.contains(std::string(name) + "_reason")) << name;
  }
  m.cell.profile = BenchProfile::kSteady;
  m.steady = true;
  m.round_offload_gb_per_s = {3, 2, 2, 2, 2, 2};
  m.round_restore_gb_per_s = {4, 4, 4, 4, 4, 4};
  m.aged = AgedSample{8, 4, 2, 1000};
  m.cell.working_set_bytes = m.working_set_bytes = 3 * m.cell.stored_bytes();
  m.cell.mix_gb_per_s = 0.5;
  const uint64_t bytes = m.cell.stored_bytes();
  m.mix = MixSamples{.offloaded_bytes = 500,
                     .offload_ns = 1000,
                     .restore_ns = {bytes, bytes / 2, bytes / 4},
                     .latencies_ns = std::vector<uint64_t>(200, 7)};
  const BenchRow made = RowOf(m);
  EXPECT_TRUE(made.publishable) << Reasons(made);
  row = made.json;
  EXPECT_EQ(row["steady"]["state"], "reached");
  EXPECT_EQ(row["steady"]["rounds"], 6);
  EXPECT_EQ(row["interval_gb_per_s"].size(), 6u);
  EXPECT_EQ(row["aged"]["refilled"], 2);
  EXPECT_EQ(row["working_set"]["snapshots"], 3);
  EXPECT_GT(row["working_set"]["of_memory"], 0);
  EXPECT_EQ(row["mix"]["offload_gb_per_s_asked"], 0.5);
  EXPECT_EQ(row["mix"]["offload_gb_per_s"], 0.5);
  EXPECT_NEAR(row["mix"]["restore_gb_per_s"].get<double>(), 2, 1e-6);
  EXPECT_EQ(row["mix"]["lat_ns"]["p99"], 7);
  EXPECT_EQ(row["mix"]["alone_lat_ns"]["n"], 0);
  EXPECT_NEAR(row["endurance"]["bytes_per_token"].get<double>(), 372736.0 / 16, 1);
  const std::string text = BenchRowText(row);
  EXPECT_NE(text.find("profile steady (reached, 6 rounds), cache direct, aged, working set"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("2.00 GB/s restored beside 0.50 GB/s offloaded"), std::string::npos) << text;
}

TEST(BenchRow, ABufferedRowIsNoDirectOne) {
  Measurement m = Good();
  m.store.direct = m.bytes.direct = false;
  EXPECT_EQ(RowOf(m).json["cell"]["cache_mode"], nullptr) << "nobody asked for a state";
  m.cell.cache = CacheState::kCold;
  m.cache = CacheSamples{.resident = {0, 0.001}, .method = "cachestat"};
  const BenchRow row = RowOf(m);
  EXPECT_EQ(row.json["cell"]["cache_mode"], "cold");
  EXPECT_EQ(row.json["cache"]["state"], "cold");
  EXPECT_EQ(row.json["cache"]["resident_share_max"], 0.001);
  EXPECT_FALSE(row.publishable);
  EXPECT_NE(BenchColumns().MarkdownLine(row.json).find("| cold |"), std::string::npos);
  // Nothing of the files was cached, and yet the device read half of it: a store kept the rest.
  m.bytes.device->read_bytes /= 2;
  const BenchRow kept = RowOf(m);
  EXPECT_EQ(kept.json["cache"]["state"], "not cold");
  EXPECT_NE(Reasons(kept).find("not cold: the device read 0.500"), std::string::npos);
}

TEST(BenchRow, OneWrongRecordFailsIt) {
  Measurement m = Good();
  m.findings.push_back({.check = Check::kPayload, .message = "K of layer 3"});
  const BenchRow row = RowOf(m);
  EXPECT_TRUE(row.failed_check);
  EXPECT_FALSE(row.publishable);
  EXPECT_EQ(row.json["status"], "failed");
  EXPECT_EQ(row.json["verify"]["status"], "differs");
  EXPECT_EQ(row.json["verify"]["findings"], 1);
  EXPECT_NE(Reasons(row).find("K of layer 3"), std::string::npos);
}

// The one reason for which a row fails.
class FalseBytes : public ::testing::TestWithParam<Broken> {};

TEST_P(FalseBytes, FailTheRow) {
  Measurement m = Good();
  GetParam().breaks(m);
  const BenchRow row = RowOf(m);
  EXPECT_TRUE(row.failed_check);
  EXPECT_FALSE(row.publishable);
  EXPECT_EQ(row.json["status"], "failed");
  ASSERT_EQ(row.json["reasons"].size(), 1u) << Reasons(row);
  EXPECT_NE(Reasons(row).find(GetParam().reason), std::string::npos) << Reasons(row);
}

INSTANTIATE_TEST_SUITE_P(
    BenchRow, FalseBytes,
    ::testing::Values(Broken{"CachedReads", [](Measurement& m) { m.bytes.device->read_bytes = 0; },
                             "a cache"},
                      Broken{"CachedWrites",
                             [](Measurement& m) {
                               m.bytes.device->written_bytes = m.bytes.app.written_bytes / 2;
                             },
                             "a cache"},
                      Broken{"NullQueue",
                             [](Measurement& m) {
                               m.bytes.process_counts = true;
                               m.bytes.process->read_bytes = 0;
                             },
                             "the process read 0 bytes"},
                      Broken{"NfsPageCache",
                             [](Measurement& m) {
                               m.bytes.past_cache = m.bytes.app;
                               m.bytes.past_cache->read_bytes = 0;
                             },
                             "not direct"},
                      Broken{"MoreThanWasMoved",
                             [](Measurement& m) {
                               m.bytes.device->written_bytes = 2 * m.bytes.app.written_bytes;
                             },
                             "more than the process moved"}),
    [](const auto& test) { return test.param.name; });

TEST(BenchRow, ASlowSyncIsInTheHeadline) {
  Measurement m = Good();
  for (OffloadSample& one : m.offload) one.d1_ns += 2'000'000'000;
  const Json offload = RowOf(m).json["offload"];
  EXPECT_EQ(offload["d0_ns"], m.offload[0].d0_ns);
  EXPECT_EQ(offload["d1_ns"], m.offload[0].d1_ns);
  EXPECT_NEAR(offload["gb_per_s"].get<double>(),
              static_cast<double>(m.cell.stored_bytes()) / static_cast<double>(m.offload[0].d1_ns),
              1e-6);
}

TEST(BenchRow, NamesTheProofAndWhatItCounts) {
  Measurement m = Good();
  m.bytes.devices = {"sda", "sdb"};
  m.bytes.redundancy = "md raid1";
  Json bytes = RowOf(m).json["bytes"];
  EXPECT_EQ(bytes["proof"], "sectors");
  EXPECT_EQ(bytes["devices"], Json({"sda", "sdb"}));
  EXPECT_EQ(bytes["redundancy"], "md raid1");
  EXPECT_EQ(bytes["past_cache_read"], nullptr);
  EXPECT_TRUE(NullsHaveReasons(bytes));
  EXPECT_NE(BenchRowText(RowOf(m).json).find("ext4 on sda, sdb (md raid1)"), std::string::npos);
}

TEST(BenchRow, SaysTheDepthThatWasReachedBesideTheOneAskedFor) {
  Measurement m = Good();
  m.store.iodepth_requested = 64;
  m.store.iodepth_achieved = 3;
  const Json store = RowOf(m).json["store"];
  EXPECT_EQ(store["iodepth_requested"], 64);
  EXPECT_EQ(store["iodepth_achieved"], 3);
}

TEST(BenchRow, SaysHowMuchOfTheDataIsThereTwice) {
  Measurement m = Good();
  m.duplicate_pages_percent = 97;
  EXPECT_EQ(RowOf(m).json["bytes"]["dup4k_pct"], 97);
}

TEST(BenchRow, HasNoHighPercentilesOfFewRecords) {
  Measurement m = Good();
  m.restore_latencies_ns.assign(99, 1000);
  EXPECT_EQ(RowOf(m).json["restore"]["lat_ns"]["p99"], nullptr);
  m.restore_latencies_ns.assign(100, 1000);
  EXPECT_EQ(RowOf(m).json["restore"]["lat_ns"]["p99"], 1000);
}

TEST(BenchRow, FioTooShortForItsClockHasNoCpuTime) {
  Measurement m = Good();
  m.fio_cpu_s_per_gb = {0, 0, 0};
  const Json ceiling = RowOf(m).json["ceiling"];
  EXPECT_EQ(ceiling["cpu_s_per_gb"], nullptr);
  EXPECT_NE(ceiling["cpu_s_per_gb_reason"].get<std::string>().find("millisecond"),
            std::string::npos);
}

// The word stands only where it is denied.
bool CallsItADisk(std::string text) {
  for (size_t at; (at = text.find("not a disk")) != std::string::npos;) text.erase(at, 10);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text.find("disk") != std::string::npos || text.find("ssd") != std::string::npos;
}

TEST(BenchTable, NeverCallsMemoryADisk) {
  Measurement m = Good();
  m.store.fs_type = "tmpfs";
  m.bytes.memory = "tmpfs";
  m.bytes.source = CounterSource::kUnavailable;
  m.bytes.device.reset();
  m.bytes.source_reason = "/dev/shm lies on tmpfs, which is memory and not a disk";
  m.null_write_gb_per_s = m.null_read_gb_per_s = 1;  // with the reason for it
  const Json row = RowOf(m).json;
  const std::string text = BenchRowText(row);
  EXPECT_NE(text.find("tmpfs: memory, not a disk"), std::string::npos) << text;
  EXPECT_FALSE(CallsItADisk(text)) << text;
  EXPECT_FALSE(CallsItADisk(BenchColumns().MarkdownHead() + BenchColumns().MarkdownLine(row)));
  EXPECT_NE(BenchColumns().MarkdownLine(row).find("| tmpfs | unavailable |"), std::string::npos);
  EXPECT_TRUE(CallsItADisk("an SSD"));
}

TEST(BenchRow, AnErrorBeforeTheFirstSampleLeavesNullsAndTheReason) {
  Measurement m = Good();
  m.offload.clear();
  m.restore.clear();
  m.verified_blocks = 0;
  m.failure = Status::IoError("write slab.dat: Input/output error");
  const BenchRow row = RowOf(m);
  EXPECT_TRUE(row.failed_io);
  EXPECT_FALSE(row.failed_check);
  EXPECT_EQ(row.json["offload"], nullptr);
  EXPECT_EQ(row.json["restore_reason"], m.failure.message());
  EXPECT_EQ(row.json["verify"]["status"], "not_assessed");
  EXPECT_NE(BenchRowText(row.json).find("Input/output error"), std::string::npos);
}

TEST(BenchTable, HasOneFieldForEachColumn) {
  Json row = RowOf(Good()).json;
  row["cell"]["store"] = "slab:/a,b\"c";
  const auto count = [](const std::string& text, char c) {
    return std::count(text.begin(), text.end(), c);
  };
  EXPECT_EQ(count(BenchColumns().MarkdownLine(row), '|') * 2,
            count(BenchColumns().MarkdownHead(), '|'));
  EXPECT_NE(BenchColumns().CsvHead().find(",label\n"), std::string::npos);
  EXPECT_NE(BenchColumns().CsvLine(row).find(",\"slab:/a,b\"\"c\","), std::string::npos);
  EXPECT_EQ(count(BenchColumns().CsvLine(row), ','), count(BenchColumns().CsvHead(), ',') + 1)
      << "one is quoted";
}

TEST(BenchTable, IsNotBrokenByWhatARowSaysAndShowsNoSmallValueAsZero) {
  Json row = RowOf(Good()).json;
  row["cell"]["store"] = "slab:/a|b\n\x1b[31m";
  row["break_even"]["bandwidth_gb_per_s"] = 0.000339;
  row["reasons"] = {"a\nb", "c"};
  const std::string line = BenchColumns().MarkdownLine(row);
  EXPECT_NE(line.find("| slab:/a\\|b\\n\\x1b[31m |"), std::string::npos) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  EXPECT_NE(line.find("| 0.00034 |"), std::string::npos) << line;
  EXPECT_NE(BenchMarkdownNote(row).find(": a\\nb; c\n"), std::string::npos)
      << BenchMarkdownNote(row);
  row["reasons"] = Json::array();
  EXPECT_EQ(BenchMarkdownNote(row), "");
}

TEST(BenchTable, SaysInWordsWhyARowIsNotPublishable) {
  Measurement m = Good();
  EXPECT_NE(BenchRowText(RowOf(m).json).find(", publishable"), std::string::npos);
  m.cell.repetitions = 2;
  EXPECT_NE(BenchRowText(RowOf(m).json).find("at least 5"), std::string::npos);
}

TEST(BenchShape, KnowsTheRecordsOfItsModels) {
  EXPECT_EQ(FindBenchShape("smollm2-135m")->Geometry(DType::kBf16, 16).record_bytes(), 372736u);
  EXPECT_EQ(FindBenchShape("llama3-8b")->Geometry(DType::kBf16, 16).record_bytes(), 2101248u);
  EXPECT_TRUE(FailsWith(FindBenchShape("llama3-8B").status(), StatusCode::kInvalidArgument,
                        "did you mean llama3-8b"));
  EXPECT_TRUE(FailsWith(FindBenchShape("/no/config.json").status(), StatusCode::kNotFound));
}

}  // namespace
}  // namespace kvbed
