#include "tools/bench/bench_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/bench/endurance.h"
#include "tools/bench/load_json.h"
#include "tools/bench/real_kv.h"
#include "tools/bench/row_fields.h"
#include "tools/bench/row_rules.h"
#include "tools/bench/statistics.h"
#include "tools/environment.h"
#include "tools/rates.h"

namespace kvbed {
namespace {

// One direction's samples in the forms that a row needs.
struct Samples {
  std::vector<uint64_t> ns;
  std::vector<double> gb_per_s;
  std::vector<double> cpu_s_per_gb;
  std::vector<double> hash_s_per_gb;
  size_t median = 0;  // the sample in the middle, from which all values of one repetition come

  void Add(uint64_t sample_ns, uint64_t cpu_ns, uint64_t hash_ns, uint64_t bytes) {
    const auto size = static_cast<double>(bytes);
    ns.push_back(sample_ns);
    gb_per_s.push_back(GbPerS(bytes, sample_ns).value_or(0));
    // ns per byte and s per GB are the same number.
    cpu_s_per_gb.push_back(static_cast<double>(cpu_ns) / size);
    hash_s_per_gb.push_back(static_cast<double>(hash_ns) / size);
  }
  void FindMedian() {
    std::vector<size_t> order(ns.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ns[a] < ns[b]; });
    if (!order.empty()) median = order[(order.size() - 1) / 2];
  }
  double cv() const { return CoefficientOfVariation(gb_per_s); }
};

bool Durable(const Measurement& m) { return m.cell.store.settings.sync != SyncMode::kNone; }

Samples OffloadSamples(const Measurement& m) {
  Samples samples;
  for (const OffloadSample& one : m.offload) {
    samples.Add(Durable(m) ? one.d1_ns : one.d0_ns, one.cpu_ns, one.hash_ns, m.cell.stored_bytes());
  }
  samples.FindMedian();
  return samples;
}

Samples RestoreSamples(const Measurement& m) {
  Samples samples;
  for (const RestoreSample& one : m.restore) {
    samples.Add(one.wall_ns, one.cpu_ns, one.verify_ns, m.cell.stored_bytes());
  }
  samples.FindMedian();
  return samples;
}

Json CellJson(const Measurement& m) {
  const BenchCell& cell = m.cell;
  Json out;
  out["ctx_tokens"] = cell.ctx_tokens;
  out["store"] = cell.store.spec.ToString();
  out["block_tokens"] = cell.geometry.block_tokens;
  out["record_bytes"] = cell.geometry.record_bytes();
  out["blocks"] = cell.blocks();
  out["iodepth"] = cell.store.settings.iodepth;
  out["numjobs"] = cell.numjobs;
  out["sequences"] = cell.sequences;
  out["ranks"] = 1;
  out["tp"] = cell.tp;
  out["kv_replicas"] = cell.kv_replicas;
  out["rounds"] = m.rounds;
  out["pool_bytes"] = m.pool_bytes;
  out["direct"] = m.store.direct;
  out["kv"] = cell.from_model ? "real" : "synthetic";
  out["durability"] = Durable(m) ? "D1" : "D0";
  out["file_state"] = m.overwrite || m.store.fs_type.empty() ? "overwrite" : "first_write";
  SetConditions(out, m);
  SetOrReason(out, "label", cell.label, "none given (--label)");
  return out;
}

// As the environment says.
std::optional<uint64_t> MemoryBytes(const Json& env) {
  const auto found = env.find("memory_bytes");
  if (found == env.end() || !found->is_number()) return std::nullopt;
  return found->get<uint64_t>();
}

// `bytes`: the row's.
Json EnduranceOf(const Measurement& m, const Json& bytes) {
  EnduranceInput input;
  input.stored_bytes_per_token = static_cast<double>(m.cell.stored_bytes()) /
                                 static_cast<double>(m.cell.sequences * m.cell.ctx_tokens);
  const Json& amplification = bytes.at("write_amplification");
  if (amplification.is_number()) {
    input.write_amplification = amplification.get<double>();
  } else {
    input.no_amplification_reason = bytes.at("write_amplification_reason").get<std::string>();
  }
  input.tbw = m.cell.tbw;
  return EnduranceJson(input);
}

Json BytesJson(const Measurement& m, const ByteVerdict& verdict) {
  const ByteEvidence& bytes = m.bytes;
  Json out;
  out["kv"] = m.cell.kv_bytes();
  out["stored"] = m.cell.stored_bytes();
  out["app_read"] = bytes.app.read_bytes;
  out["app_written"] = bytes.app.written_bytes;
  const auto set = [&](const std::string& who, const std::optional<ByteCounts>& counts,
                       const std::string& reason) {
    std::optional<uint64_t> read, written;
    if (counts) {
      read = counts->read_bytes;
      written = counts->written_bytes;
    }
    SetOrReason(out, who + "_read", read, reason);
    SetOrReason(out, who + "_written", written, reason);
  };
  set("proc", bytes.process, "/proc/self/io can't be read");
  set("device", bytes.device, bytes.source_reason);
  set("past_cache", bytes.past_cache, "only NFS counts what went past its client's page cache");
  const std::string no_ratio =
      bytes.device ? "nothing was moved in this direction" : bytes.source_reason;
  SetOrReason(out, "device_read_ratio", verdict.read_ratio, no_ratio);
  SetOrReason(out, "device_write_ratio", verdict.write_ratio, no_ratio);
  SetOrReason(out, "device_ratio", verdict.worse_ratio, no_ratio);
  out["proof"] = std::string(CounterSourceName(bytes.source));
  if (!bytes.source_reason.empty()) out["proof_reason"] = bytes.source_reason;
  out["devices"] = bytes.devices;
  SetTextOrReason(out, "redundancy", bytes.redundancy, "none in sight");
  SetTextOrReason(out, "memory", bytes.memory, "not in memory as far as one can see");
  // A store that goes on writing after the clock stopped knows better than the device does then.
  const bool written_later = !m.store.direct && !Durable(m);
  const std::optional<double> by_device = written_later ? std::nullopt : verdict.write_ratio;
  SetOrReason(
      out, "write_amplification",
      m.store.write_amplification ? m.store.write_amplification : by_device,
      written_later ? "the kernel writes what isn't synced after the clock stopped" : no_ratio);
  out["dup4k_pct"] = m.duplicate_pages_percent;
  SetNull(out, "zstd_ratio", "kvbed is built without zstd");
  out["other_io"] = verdict.other_io;
  return out;
}

void SetSamples(Json& out, const Measurement& m, const Samples& samples) {
  const auto [least, most] = std::minmax_element(samples.ns.begin(), samples.ns.end());
  out["samples_ns"] = samples.ns;
  out["n"] = samples.ns.size();
  out["median_ns"] = samples.ns[samples.median];
  out["min_ns"] = *least;
  out["max_ns"] = *most;
  out["cv"] = samples.cv();
  const double gb_per_s = Median(samples.gb_per_s);
  out["gb_per_s"] = gb_per_s;
  out["kv_gb_per_s"] = gb_per_s * static_cast<double>(m.cell.kv_bytes()) /
                       static_cast<double>(m.cell.stored_bytes());
  out["cpu_s_per_gb"] = Median(samples.cpu_s_per_gb);
  out["hash_s_per_gb"] = Median(samples.hash_s_per_gb);
}

Json OffloadJson(const Measurement& m, const Samples& samples) {
  const OffloadSample& median = m.offload[samples.median];
  Json out;
  SetSamples(out, m, samples);
  out["d0_ns"] = median.d0_ns;
  SetOrReason(out, "d1_ns", Durable(m) ? std::optional(median.d1_ns) : std::nullopt, "sync=none");
  out["d2_ns"] = median.d2_ns;
  out["first_done_ns"] = median.first_done_ns;
  out["last_done_ns"] = median.last_done_ns;
  out["lat_ns"] = LatencyJson(m.offload_latencies_ns, "records");
  return out;
}

Json RestoreRowJson(const Measurement& m, const Samples& samples) {
  const RestoreSample& median = m.restore[samples.median];
  Json out;
  SetSamples(out, m, samples);
  out["read_ns"] = median.read_ns;
  out["verify_ns"] = median.verify_ns;
  out["overlap_ns"] = median.overlap_ns;
  SetOrReason(out, "prefill_tokens_after_restore",
              m.ttft ? std::optional(m.ttft->prefill_tokens_after_restore) : std::nullopt,
              m.ttft_reason);
  out["first_done_ns"] = median.first_done_ns;
  out["last_done_ns"] = median.last_done_ns;
  out["lat_ns"] = LatencyJson(m.restore_latencies_ns, "records");
  return out;
}

Json FirstWriteJson(const Measurement& m) {
  Json out;
  const std::string reason = m.first_write_reason.empty() ? "no sample" : m.first_write_reason;
  SetOrReason(out, "gb_per_s", MedianOf(m.first_write_gb_per_s), reason);
  SetOrReason(out, "efficiency", MedianOfRatios(m.first_write_gb_per_s, m.first_write_fio_gb_per_s),
              !m.first_write_fio_reason.empty() ? m.first_write_fio_reason
              : !m.fio.reason.empty()           ? m.fio.reason
                                                : reason);
  out["fio_file_state"] = "preallocated, never written";
  return out;
}

// The samples of the ceiling with the highest median, and its name.
struct BestCeiling {
  const std::vector<double>* samples = nullptr;
  std::string name;
  std::optional<double> gb_per_s;
};

struct NamedCeiling {
  const char* name;
  const CeilingSamples& samples;
};

BestCeiling Best(const Measurement& m, std::vector<double> CeilingSamples::*direction) {
  BestCeiling best;
  for (const NamedCeiling& one : {NamedCeiling{"fio", m.fio}, NamedCeiling{"fio_huge", m.fio_huge},
                                  NamedCeiling{"raw", m.raw}}) {
    const auto median = MedianOf(one.samples.*direction);
    if (median && (!best.gb_per_s || *median > *best.gb_per_s)) {
      best = {&(one.samples.*direction), one.name, median};
    }
  }
  return best;
}

Json CeilingJson(const Measurement& m, const Samples& offload, const Samples& restore) {
  Json out;
  const auto set = [&](const std::string& name, const std::optional<double>& value,
                       const std::string& reason) {
    SetOrReason(out, name, value, reason.empty() ? "no sample" : reason);
  };
  const std::string& why = m.fio.reason;
  set("write_gb_per_s", MedianOf(m.fio.write), why);
  set("read_gb_per_s", MedianOf(m.fio.read), why);
  set("write_efficiency", MedianOfRatios(offload.gb_per_s, m.fio.write), why);
  set("read_efficiency", MedianOfRatios(restore.gb_per_s, m.fio.read), why);
  const auto fio_cpu = MedianOf(m.fio_cpu_s_per_gb);
  set("cpu_s_per_gb", fio_cpu && *fio_cpu > 0 ? fio_cpu : std::nullopt,
      fio_cpu ? "fio counts its processor time in whole milliseconds, and used less" : why);
  SetTextOrReason(out, "fio_job", m.fio_job, why);
  out["reason"] = TextOrNull(why);
  set("huge_write_gb_per_s", MedianOf(m.fio_huge.write), m.fio_huge.reason);
  set("huge_read_gb_per_s", MedianOf(m.fio_huge.read), m.fio_huge.reason);
  set("raw_write_gb_per_s", MedianOf(m.raw.write), m.raw.reason);
  set("raw_read_gb_per_s", MedianOf(m.raw.read), m.raw.reason);
  set("raw_write_efficiency", MedianOfRatios(offload.gb_per_s, m.raw.write), m.raw.reason);
  set("raw_read_efficiency", MedianOfRatios(restore.gb_per_s, m.raw.read), m.raw.reason);
  const auto set_best = [&](const std::string& verb, const Samples& ours,
                            std::vector<double> CeilingSamples::*direction) {
    const BestCeiling best = Best(m, direction);
    const auto ratio =
        best.samples != nullptr ? MedianOfRatios(ours.gb_per_s, *best.samples) : std::nullopt;
    set(fmt::format("best_{}_efficiency", verb), ratio, "no ceiling was measured");
    SetTextOrReason(out, fmt::format("best_{}", verb), best.name, "no ceiling was measured");
  };
  set_best("write", offload, &CeilingSamples::write);
  set_best("read", restore, &CeilingSamples::read);
  set("null_write_gb_per_s", m.null_write_gb_per_s, m.null_reason);
  set("null_read_gb_per_s", m.null_read_gb_per_s, m.null_reason);
  std::optional<double> null_records_per_s;
  if (m.null_write_gb_per_s && m.null_read_gb_per_s) {
    null_records_per_s = std::min(*m.null_write_gb_per_s, *m.null_read_gb_per_s) * 1e9 /
                         static_cast<double>(m.cell.geometry.record_bytes());
  }
  set("null_records_per_s", null_records_per_s, m.null_reason);
  return out;
}

bool IsToolBound(const Measurement& m) {
  const auto bound = [&](std::vector<double> CeilingSamples::*direction,
                         const std::optional<double>& null_gb_per_s) {
    const BestCeiling best = Best(m, direction);
    return best.gb_per_s && null_gb_per_s && *best.gb_per_s > kToolBoundAbove * *null_gb_per_s;
  };
  return bound(&CeilingSamples::write, m.null_write_gb_per_s) ||
         bound(&CeilingSamples::read, m.null_read_gb_per_s);
}

Json VerifyJson(const Measurement& m) {
  Json out;
  const bool assessed = m.verified_blocks > 0 || !m.findings.empty();
  out["status"] = !assessed ? "not_assessed" : m.findings.empty() ? "equal" : "differs";
  out["blocks"] = m.verified_blocks;
  out["findings"] = m.findings.size();
  out["first_finding"] = m.findings.empty() ? Json() : FindingJson(m.findings.front());
  return out;
}

// Why the row can't be published, apart from what made it fail.
std::vector<std::string> Remarks(const Measurement& m, const Samples& offload,
                                 const Samples& restore, bool tool_bound) {
  std::vector<std::string> remarks;
  const auto noisy = [&](const char* what, const Samples& samples) {
    if (samples.cv() > kNoisyAbove) {
      remarks.push_back(fmt::format("noisy: the {} varies by {:.0f} % (standard deviation)", what,
                                    100 * samples.cv()));
    }
  };
  noisy("offload", offload);
  noisy("restore", restore);
  if (m.cell.repetitions < kRepetitionsLeast) {
    remarks.push_back(fmt::format("{} timed repetitions, and at least {} are wanted",
                                  m.cell.repetitions, kRepetitionsLeast));
  }
  if (!m.fio.reason.empty()) remarks.push_back("no fio beside it: " + m.fio.reason);
  if (!Durable(m)) remarks.push_back("sync=none: the data were not durable when the clock stopped");
  if (!m.overwrite && m.store.overwrites) {
    remarks.push_back("some records went into slots that were not written before");
  }
  if (tool_bound) {
    remarks.push_back("tool-bound: a ceiling is above 0.8 of what kvbed does over a null device");
  }
  const std::vector<std::string> load = LoadRemarks(m);
  remarks.insert(remarks.end(), load.begin(), load.end());
  return remarks;
}

Json ModelOf(const BenchCell& cell) {
  if (cell.real == nullptr) {
    return ModelJson({.name = cell.shape.name,
                      .config = cell.shape.config,
                      .digests = std::nullopt,
                      .geometry = cell.geometry,
                      .kernels = std::nullopt,
                      .weight_bytes = std::nullopt,
                      .absent_reason = "synthetic KV of a shape: no model"});
  }
  const LoadedModel& model = cell.real->model();
  return ModelJson({.name = model.files.name,
                    .config = model.files.config,
                    .digests = model.digests,
                    .geometry = cell.geometry,
                    .kernels = model.engine.environment().kernel_set,
                    .weight_bytes = model.engine.weight_bytes(),
                    .absent_reason = ""});
}

// What a resumed sequence must be: whole, with nothing computed again, its time accounted for.
std::vector<std::string> TtftFailures(const Measurement& m) {
  std::vector<std::string> failures;
  if (!m.ttft) return failures;
  if (m.ttft->prefill_tokens_after_restore != 0) {
    failures.push_back(fmt::format("{} tokens were prefilled after a restore",
                                   m.ttft->prefill_tokens_after_restore));
  }
  if (!m.ttft->same_logits) {
    failures.push_back(
        "the first token's logits differ between a restored cache and one in memory");
  }
  if (const auto median = MedianTtftRestore(m)) {
    const std::string wrong = PartsThatDontSum(*median);
    if (!wrong.empty()) failures.push_back(wrong);
  }
  return failures;
}

}  // namespace

BenchRow MakeBenchRow(const Measurement& m, const BenchRowContext& context) {
  BenchRow row;
  row.json = MakeResult({"kvbed-bench/1", context.argv, m.cell.seed, context.started_unix_ns});
  Json& json = row.json;
  EnvironmentQuery query;
  query.path = m.cell.store.spec.path;
  query.huge_page_bytes = m.huge_page_bytes;
  query.seed = m.cell.seed;
  json["env"] = EnvironmentJson(ReadEnvironment(query));
  json["model"] = ModelOf(m.cell);
  json["cell"] = CellJson(m);
  json["store"] = StoreJson(m.store, m.huge_page_bytes);

  const ByteVerdict bytes = JudgeBytes(m.bytes);
  json["bytes"] = BytesJson(m, bytes);
  const Samples offload = OffloadSamples(m);
  const Samples restore = RestoreSamples(m);
  const std::string failed = m.failure.ok() ? "no repetition" : m.failure.message();
  if (offload.ns.empty()) {
    SetNull(json, "offload", failed);
  } else {
    json["offload"] = OffloadJson(m, offload);
  }
  json["offload_first_write"] = FirstWriteJson(m);
  if (restore.ns.empty()) {
    SetNull(json, "restore", failed);
  } else {
    json["restore"] = RestoreRowJson(m, restore);
  }
  json["ttft"] = TtftJson(m);
  json["break_even"] = BreakEvenJson(m, context.smaller);
  json["ceiling"] = CeilingJson(m, offload, restore);
  SetLoad(json, m, MemoryBytes(json["env"]));
  json["endurance"] = EnduranceOf(m, json["bytes"]);
  json["verify"] = VerifyJson(m);

  const bool tool_bound = IsToolBound(m);
  json["noisy"] = offload.cv() > kNoisyAbove || restore.cv() > kNoisyAbove;
  json["tool_bound"] = tool_bound;

  row.failed_io = !m.failure.ok();
  row.failed_check = !m.findings.empty() || !bytes.failures.empty();
  if (row.failed_io) AddFailure(json, m.failure.message());
  if (!m.findings.empty()) {
    AddFailure(json, fmt::format("{} records failed verification: {}", m.findings.size(),
                                 m.findings.front().message));
  }
  for (const std::string& failure : bytes.failures) AddFailure(json, failure);
  for (const std::string& failure : TtftFailures(m)) {
    AddFailure(json, failure);
    row.failed_check = true;
  }
  std::vector<std::string> remarks;
  // A cell that ended before its first sample has no figures to remark on.
  if (m.failure.ok() || !m.offload.empty()) {
    remarks = Remarks(m, offload, restore, tool_bound);
    remarks.insert(remarks.end(), bytes.remarks.begin(), bytes.remarks.end());
  }
  for (const std::string& remark : remarks) AddReason(json, remark);
  row.publishable = !row.failed_io && !row.failed_check && remarks.empty();
  json["publishable"] = row.publishable;
  return row;
}

}  // namespace kvbed
