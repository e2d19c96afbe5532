#include "tools/sweep/sweep_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/bench/row_fields.h"
#include "tools/bench/row_rules.h"
#include "tools/bench/statistics.h"
#include "tools/rates.h"
#include "tools/sweep/knee.h"

namespace kvbed {
namespace {

struct PointRates {
  std::vector<double> gb_per_s;
  std::vector<double> iops;
  std::vector<double> cpu_s_per_gb;
  std::vector<double> stamp_s_per_gb;
  bool has_any() const { return !gb_per_s.empty(); }
  double cv() const { return CoefficientOfVariation(gb_per_s); }
};

PointRates RatesOf(const SweepPoint& point) {
  PointRates rates;
  const auto size = static_cast<double>(point.bytes_each());
  for (size_t i = 0; i < point.samples_ns.size(); ++i) {
    const auto ns = static_cast<double>(std::max<uint64_t>(point.samples_ns[i], 1));
    rates.gb_per_s.push_back(size / ns);
    rates.iops.push_back(static_cast<double>(point.blocks) * 1e9 / ns);
    // ns per byte and s per GB are the same number.
    rates.cpu_s_per_gb.push_back(static_cast<double>(point.cpu_ns[i]) / size);
    rates.stamp_s_per_gb.push_back(static_cast<double>(point.stamp_ns[i]) / size);
  }
  return rates;
}

Json SweepCellJson(const SweepSettings& settings, const SweepGroup& group,
                   const SweepPoint& point) {
  Json out;
  out["op"] = std::string(SweepOpName(group.op));
  out["bs_bytes"] = group.bs_bytes;
  out["iodepth"] = point.iodepth;
  out["ioengine"] = std::string(IoEngineName(point.queue.engine));
  out["direct"] = point.direct;
  out["registered"] = point.queue.registered_buffers;
  out["order"] = settings.order == BlockOrderKind::kRandom ? "random" : "sequential";
  out["bytes"] = point.bytes_each();
  out["blocks"] = point.blocks;
  out["file_state"] = "overwrite";
  out["durability"] = "D1";
  if (group.op == SweepOp::kRead) SetNull(out, "durability", "a read");
  // What a warm-up and the passes before have left in the page cache answers a buffered point.
  out["cache_mode"] = point.direct ? "none" : "warm";
  SetOrReason(out, "label", settings.label, "none given (--label)");
  return out;
}

// As of an open store, though none is: what its I/O would be.
Json SweepStoreJson(const SweepSettings& settings, const SweepGroupResult& group,
                    const SweepPoint& point) {
  const IoQueueInfo& queue = point.queue;
  Json out;
  out["spec"] = settings.spec;
  SetNull(out, "uuid", "the store isn't opened");
  out["ioengine_requested"] = std::string(IoEngineName(group.group.engine.asked));
  out["ioengine"] = std::string(IoEngineName(queue.engine));
  out["ioengine_reason"] = TextOrNull(queue.engine_reason);
  out["direct_requested"] = std::string(DirectModeName(group.group.direct));
  out["direct"] = point.direct;
  out["direct_reason"] = TextOrNull(group.support.reason);
  out["fs_type"] = group.support.filesystem;
  out["alignment_bytes"] = point.alignment_bytes;
  out["iodepth_requested"] = point.iodepth;
  out["iodepth_achieved"] = queue.iodepth_achieved;
  out["registered_requested"] = group.group.registered == Registered::kOn;
  out["registered_buffers"] = queue.registered_buffers;
  out["registered_buffers_reason"] = TextOrNull(queue.registered_buffers_reason);
  out["registered_files"] = queue.registered_files;
  out["registered_files_reason"] = TextOrNull(queue.registered_files_reason);
  out["ring_flags"] = queue.ring_flags;
  out["huge_page_bytes"] = group.huge_page_bytes;
  return out;
}

void SetRates(Json& out, const SweepPoint& point, const PointRates& rates) {
  const std::string& failed = point.failure.message();
  SetOrReason(out, "gb_per_s", MedianOf(rates.gb_per_s), failed);
  SetOrReason(out, "iops", MedianOf(rates.iops), failed);
  out["samples_ns"] = point.samples_ns;
  out["n"] = point.samples_ns.size();
  std::optional<uint64_t> median, least, most;
  if (rates.has_any()) {
    std::vector<uint64_t> sorted = point.samples_ns;
    std::sort(sorted.begin(), sorted.end());
    median = Percentile(sorted, 50);
    least = sorted.front();
    most = sorted.back();
  }
  SetOrReason(out, "median_ns", median, failed);
  SetOrReason(out, "min_ns", least, failed);
  SetOrReason(out, "max_ns", most, failed);
  out["cv"] = rates.cv();
  out["lat_ns"] = LatencyJson(point.latencies_ns, "blocks");
  // Of very many blocks each so many'th is kept.
  out["lat_ns"]["of"] = point.blocks * point.samples_ns.size();
  SetOrReason(out, "cpu_s_per_gb", MedianOf(rates.cpu_s_per_gb), failed);
  SetOrReason(out, "stamp_s_per_gb", MedianOf(rates.stamp_s_per_gb), failed);
}

// Of the point's direction.
Json MovedJson(SweepOp op, const ByteEvidence& bytes, const ByteVerdict& verdict) {
  const auto field = op == SweepOp::kRead ? &ByteCounts::read_bytes : &ByteCounts::written_bytes;
  const auto of = [&](const std::optional<ByteCounts>& counts) -> std::optional<uint64_t> {
    return counts ? std::optional((*counts).*field) : std::nullopt;
  };
  Json out;
  out["app"] = bytes.app.*field;
  SetOrReason(out, "proc", of(bytes.process), "/proc/self/io can't be read");
  SetOrReason(out, "device", of(bytes.device), bytes.source_reason);
  SetOrReason(out, "ratio", op == SweepOp::kRead ? verdict.read_ratio : verdict.write_ratio,
              bytes.device ? "nothing was moved" : bytes.source_reason);
  out["proof"] = std::string(CounterSourceName(bytes.source));
  if (!bytes.source_reason.empty()) out["proof_reason"] = bytes.source_reason;
  out["other_io"] = verdict.other_io;
  return out;
}

Json SweepVerifyJson(SweepOp op, const SweepPoint& point) {
  Json out;
  out["status"] = point.verified_blocks == 0 ? "not_assessed"
                  : point.wrong_blocks == 0  ? "equal"
                                             : "differs";
  out["blocks"] = point.verified_blocks;
  out["findings"] = point.wrong_blocks;
  out["reason"] = op == SweepOp::kWrite ? Json("a write") : Json();
  return out;
}

Json SweepCeilingJson(const SweepPoint& point, const PointRates& rates) {
  const std::string why = point.fio_reason.empty() ? "no sample" : point.fio_reason;
  Json out;
  SetOrReason(out, "gb_per_s", MedianOf(point.fio_gb_per_s), why);
  SetOrReason(out, "efficiency", MedianOfRatios(rates.gb_per_s, point.fio_gb_per_s), why);
  SetTextOrReason(out, "fio_job", point.fio_job, why);
  SetOrReason(out, "null_gb_per_s", point.null_gb_per_s, "the point failed");
  return out;
}

bool IsSweepToolBound(const SweepPoint& point, const PointRates& rates) {
  const auto gb_per_s = MedianOf(rates.gb_per_s);
  return gb_per_s && point.null_gb_per_s && *gb_per_s > kToolBoundAbove * *point.null_gb_per_s;
}

// Why the row can't be published, apart from what made it fail and what its bytes say.
std::vector<std::string> SweepRemarks(const SweepGroupResult& group, const SweepPoint& point,
                                      const PointRates& rates) {
  std::vector<std::string> remarks;
  if (rates.cv() > kNoisyAbove) {
    remarks.push_back(
        fmt::format("noisy: it varies by {:.0f} % (standard deviation)", 100 * rates.cv()));
  }
  if (point.repetitions < kRepetitionsLeast) {
    remarks.push_back(fmt::format("{} timed repetitions, and at least {} are wanted",
                                  point.repetitions, kRepetitionsLeast));
  }
  if (group.support.filesystem == "tmpfs") {
    remarks.push_back("tmpfs keeps files in memory: no disk was measured");
  }
  if (IsSweepToolBound(point, rates)) {
    remarks.push_back("tool-bound: it is above 0.8 of what kvbed does without a disk");
  }
  return remarks;
}

// Why the depth that was asked for was not reached; empty when it was.
std::string DepthReason(const SweepPoint& point) {
  if (point.queue.iodepth_achieved >= point.iodepth) return "";
  if (point.queue.engine == IoEngine::kPsync) return "psync moves one block at a time";
  return "the queue never held more";
}

Json KneeJson(const Knee& knee) {
  Json out;
  out["iodepth"] = knee.iodepth;
  SetOrReason(out, "lat_p50_ns", knee.lat_p50_ns, "no latency");
  out["gb_per_s"] = knee.gb_per_s;
  out["peak_gb_per_s"] = knee.peak_gb_per_s;
  out["at_largest_depth"] = knee.at_largest_depth;
  return out;
}

bool FailedCheck(const SweepPoint& point) {
  return point.wrong_blocks > 0 || !JudgeBytes(point.bytes).failures.empty();
}

// The group's knee, or why it has none.
void SetKnee(Json& row, const SweepGroupResult& group) {
  std::vector<DepthPoint> points;
  for (const SweepPoint& point : group.points) {
    if (!point.failure.ok() || point.samples_ns.empty() || FailedCheck(point)) {
      return SetNull(row, "knee", "a point of the group failed");
    }
    if (point.queue.engine == IoEngine::kPsync) {
      return SetNull(row, "knee", "psync moves one block at a time, whatever the depth");
    }
    points.push_back(
        {point.iodepth, Median(RatesOf(point).gb_per_s), PercentilesOf(point.latencies_ns).p50});
  }
  const auto knee = FindKnee(std::move(points));
  if (!knee) return SetNull(row, "knee", "there is one depth only");
  row["knee"] = KneeJson(*knee);
}

void AddRow(const SweepSettings& settings, const SweepGroupResult& group, const SweepPoint& point,
            const SweepRowContext& context, SweepRows& out) {
  const SweepOp op = group.group.op;
  const ByteVerdict bytes = JudgeBytes(point.bytes);
  const PointRates rates = RatesOf(point);
  Json row = MakeResult({"kvbed-sweep/1", context.argv, settings.seed, context.started_unix_ns});
  row["env"] = context.env;
  SetNull(row, "model", "a sweep moves blocks of random bytes: no model");
  row["cell"] = SweepCellJson(settings, group.group, point);
  row["store"] = SweepStoreJson(settings, group, point);
  row["iodepth_achieved"] = point.queue.iodepth_achieved;
  row["iodepth_achieved_reason"] = TextOrNull(DepthReason(point));
  SetRates(row, point, rates);
  row["bytes"] = MovedJson(op, point.bytes, bytes);
  row["verify"] = SweepVerifyJson(op, point);
  row["ceiling"] = SweepCeilingJson(point, rates);
  SetKnee(row, group);
  row["noisy"] = rates.cv() > kNoisyAbove;
  row["tool_bound"] = IsSweepToolBound(point, rates);

  const bool failed_io = !point.failure.ok();
  const bool failed_check = FailedCheck(point);
  if (failed_io) AddFailure(row, point.failure.message());
  if (point.wrong_blocks > 0) {
    AddFailure(row, fmt::format("{} of {} blocks that were looked at are not what was written",
                                point.wrong_blocks, point.verified_blocks));
  }
  for (const std::string& failure : bytes.failures) AddFailure(row, failure);
  std::vector<std::string> remarks = SweepRemarks(group, point, rates);
  remarks.insert(remarks.end(), bytes.remarks.begin(), bytes.remarks.end());
  for (const std::string& remark : remarks) AddReason(row, remark);
  const bool publishable = !failed_io && !failed_check && remarks.empty();
  row["publishable"] = publishable;
  out.failed_io |= failed_io;
  out.failed_check |= failed_check;
  out.publishable &= publishable;
  out.rows.push_back(std::move(row));
}

}  // namespace

SweepRows MakeSweepRows(const SweepSettings& settings, const SweepGroupResult& group,
                        const SweepRowContext& context) {
  SweepRows out;
  for (const SweepPoint& point : group.points) AddRow(settings, group, point, context, out);
  return out;
}

}  // namespace kvbed
