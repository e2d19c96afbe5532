#include "tools/verify/model_round_trips.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/open_store.h"
#include "engine/model/toy_model.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/run_job.h"
#include "tools/verify/fresh_restore.h"
#include "tools/verify/store_opener.h"

namespace kvbed {
namespace {

constexpr const char* kPromptText = "The capital of France is";

RunOptions JobOf(const ModelTrip& trip, uint64_t seed) {
  RunOptions job;
  job.model.model = trip.model;
  job.model.dtype = trip.dtype;
  job.pool.block_tokens = trip.block_tokens;
  if (!IsToySpec(trip.model)) job.prompt.prompt = kPromptText;
  job.prompt.ctx = trip.prompt_tokens;
  job.sampling.seed = seed;
  job.snapshot_at = trip.snapshot_tokens - trip.prompt_tokens;
  job.new_tokens = *job.snapshot_at + kDecodedAfter + 1;
  job.store.spec = SpecWithSettings(trip.spec, trip.settings).ToString();
  job.name = fmt::format("kvbed-verify.{:x}", seed);
  job.replace = true;
  job.fresh_process = trip.fresh_process;
  job.no_drift = true;
  return job;
}

// What keeps the run from being equal in all; empty for nothing.
std::string ReasonOf(const RunReport& report) {
  const auto reason = [](std::string_view what, const auto& verdict) -> std::string {
    if (!verdict) return fmt::format("{}: no verdict", what);
    if (verdict->status == VerdictStatus::kEqual) return {};
    return fmt::format("{}: {}{}{}", what, VerdictStatusName(verdict->status),
                       verdict->reason.empty() ? "" : ", ", verdict->reason);
  };
  std::string text = reason("control (two cached runs)", report.control);
  if (text.empty()) text = reason("bytes", report.bytes);
  if (text.empty()) text = reason("logits", report.logits);
  if (text.empty()) text = reason("tokens", report.tokens);
  if (text.empty() && report.restore->prefill_tokens_after_restore != 0) {
    text = fmt::format("{} tokens were computed again after the restore",
                       report.restore->prefill_tokens_after_restore);
  }
  return text;
}

void RemoveSnapshot(const ModelTrip& trip, const std::string& name) {
  auto store = OpenStore(trip.spec, {.access = StoreAccess::kWrite, .defaults = trip.settings});
  if (store.ok()) (*store)->RemoveManifest(name).IgnoreError();
}

}  // namespace

Status RunModelTrip(const ModelTrip& trip, CaseLog& log) {
  if (log.stopped()) return InterruptedStatus();
  if (!log.Wants(trip.name)) return Status::Ok();
  CaseResult result = log.Start(trip.name, CaseKind::kRoundtrip);
  const RunOptions job = JobOf(trip, result.seed);
  const auto report = RunMainJob(job);
  if (trip.removes) RemoveSnapshot(trip, job.name);
  if (!report.ok()) {
    const StatusCode code = report.status().code();
    const bool machine = code == StatusCode::kNotSupported || code == StatusCode::kOutOfSpace;
    if (machine || IsInterrupted(report.status())) return report.status();
    result.status = CaseStatus::kFail;
    result.reason = report.status().message();
    log.Finish(std::move(result));
    return Status::Ok();
  }
  result.reason = ReasonOf(*report);
  if (!result.reason.empty()) result.status = CaseStatus::kFail;
  if (report->bytes && !report->bytes->findings.empty()) {
    result.finding = report->bytes->findings.front();
  }
  const bool restored = report->restore && report->restore->restore.whole();
  if (restored && report->bytes && report->bytes->status == VerdictStatus::kDiffers) {
    result.served_wrong = 1;
  }
  log.Finish(std::move(result));
  return Status::Ok();
}

}  // namespace kvbed
