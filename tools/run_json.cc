// kvbed-run/1, as run, snapshot and resume write it.
#include <nlohmann/json.hpp>

#include "tools/drift/drift_json.h"
#include "tools/rates.h"
#include "tools/restore_json.h"
#include "tools/run_report.h"

namespace kvbed {
namespace {

Json Ids(const std::vector<TokenView>& tokens) {
  Json ids = Json::array();
  for (const TokenView& token : tokens) ids.push_back(token.id);
  return ids;
}

Json SnapshotJson(const SnapshotReport& snapshot) {
  const OffloadReport& offload = snapshot.offload;
  Json out;
  out["name"] = snapshot.name;
  out["spec"] = snapshot.spec;
  out["kept"] = snapshot.kept;
  out["at_decode_call"] = snapshot.at_decode_call;
  out["tokens"] = snapshot.tokens;
  out["blocks"] = offload.blocks;
  out["blocks_written"] = offload.blocks_written;
  out["kv_bytes"] = offload.kv_bytes;
  out["stored_bytes"] = offload.stored_bytes;
  out["written_bytes"] = offload.written_bytes;
  out["hash_ns"] = offload.hash_ns;
  out["d0_ns"] = offload.d0_ns;
  if (offload.d1_ns > 0) {
    out["d1_ns"] = offload.d1_ns;
  } else {
    SetNull(out, "d1_ns", "sync=none: nobody waited for the data");
  }
  out["d2_ns"] = offload.d2_ns;
  const uint64_t headline_ns = offload.d1_ns > 0 ? offload.d1_ns : offload.d0_ns;
  SetOrReason(out, "gb_per_s", GbPerS(offload.written_bytes, headline_ns), "nothing was written");
  // Every written record counts as full but the last, which the tail fills in part.
  const bool all_written = offload.blocks_written == offload.blocks;
  SetOrReason(out, "kv_gb_per_s",
              all_written ? GbPerS(offload.kv_bytes, headline_ns) : std::nullopt,
              "only the changed blocks were written");
  return out;
}

template <class Verdict>
Json VerdictJson(const Verdict& verdict) {
  Json out;
  out["status"] = std::string(VerdictStatusName(verdict.status));
  out["steps"] = verdict.steps;
  out["expected_steps"] = verdict.expected_steps;
  out["differing_steps"] = verdict.differing_steps;
  out["first_differing_step"] =
      verdict.first_differing_step ? Json(*verdict.first_differing_step) : Json();
  out["reason"] = TextOrNull(verdict.reason);
  return out;
}

Json VerdictsJson(const RunReport& report) {
  Json out;
  if (report.control) {
    out["control"] = {{"status", std::string(VerdictStatusName(report.control->status))},
                      {"reason", TextOrNull(report.control->reason)}};
  } else {
    SetNull(out, "control", "only `run` makes two cached runs");
  }
  if (report.bytes) {
    Json bytes;
    bytes["status"] = std::string(VerdictStatusName(report.bytes->status));
    bytes["compared_bytes"] = report.bytes->compared_bytes;
    SetOrReason(bytes, "differing_bits", report.bytes->differing_bits,
                report.bytes->compared_bytes == 0 ? "nothing was compared"
                                                  : "compared by digests, which count no bits");
    bytes["findings"] = Json::array();
    for (const Finding& finding : report.bytes->findings) {
      bytes["findings"].push_back(FindingJson(finding));
    }
    bytes["reason"] = TextOrNull(report.bytes->reason);
    out["bytes"] = std::move(bytes);
  }
  if (report.logits) {
    out["logits"] = VerdictJson(*report.logits);
    SetOrReason(out["logits"], "differing_bits", report.logits->differing_bits,
                "logits were compared by their digests");
  }
  if (report.tokens) out["tokens"] = VerdictJson(*report.tokens);
  return out;
}

Json DriftOrWhyNot(const RunReport& report) {
  if (report.drift) return DriftJson(*report.drift);
  return {{"status", "skipped"}, {"reason", report.drift_skipped}};
}

Json KernelsDriftJson(const KernelsDrift& arm) {
  Json out = {{"factor", "kernels"}, {"value", arm.kernels}, {"kernels", arm.kernels}};
  if (!arm.drift) {
    out["status"] = "skipped";
    out["reason"] = arm.reason;
    return out;
  }
  out["numeric_environment"] = NumericEnvironmentJson(arm.environment);
  out.update(DriftJson(*arm.drift));
  out["timings"] = {{"load_ns", arm.load_ns},
                    {"prefill_ns", arm.prefill_ns},
                    {"decode_ns", arm.decode_ns},
                    {"recompute_ns", arm.recompute_ns}};
  return out;
}

}  // namespace

Json RunJson(const RunReport& report) {
  Json out = MakeResult(report.header);
  out["model"] = ModelJson(report.model);
  out["numeric_environment"] = NumericEnvironmentJson(report.environment);
  if (report.store) out["store"] = StoreJson(*report.store, report.huge_page_bytes);
  out["warnings"] = report.warnings;
  if (!report.prompt.empty()) {
    out["prompt"] = {{"text", report.prompt_text ? Json(*report.prompt_text) : Json()},
                     {"ids", Ids(report.prompt)},
                     {"tokens", report.prompt.size()}};
  }
  if (!report.generated.empty()) {
    out["generated"] = {{"ids", Ids(report.generated)},
                        {"text", TextOrNull(report.generated_text)}};
  }
  if (report.restore) {
    out["resumed"] = {{"ids", Ids(report.resumed)}, {"text", TextOrNull(report.resumed_text)}};
  }
  if (!report.growth.empty()) {
    out["kv_progression"] = Json::array();
    for (const CacheGrowth& one : report.growth) {
      out["kv_progression"].push_back({one.before, one.after, one.decode ? "decode" : "prefill"});
    }
  }
  if (report.snapshot) out["snapshot"] = SnapshotJson(*report.snapshot);
  if (!report.injected.empty()) out["injected"] = report.injected;
  if (report.restore) out["restore"] = RestoreJson(*report.restore);
  if (report.saved) out["saved"] = SnapshotJson(*report.saved);
  if (!report.not_saved_reason.empty()) SetNull(out, "saved", report.not_saved_reason);
  if (report.bytes || report.control) out["verdict"] = VerdictsJson(report);
  if (report.drift || !report.drift_skipped.empty()) out["drift"] = DriftOrWhyNot(report);
  if (report.drift) {
    out["drift_arms"] = Json::array();
    for (const KernelsDrift& arm : report.drift_arms) {
      out["drift_arms"].push_back(KernelsDriftJson(arm));
    }
  }
  out["timings"] = {{"load_ns", report.load_ns},
                    {"prefill_ns", report.prefill_ns},
                    {"decode_ns", report.decode_ns},
                    {"drift_ns", report.drift_ns},
                    {"total_ns", report.total_ns}};
  if (ExitCodeOf(report) != 0) {
    const std::string reason = report.bytes && !report.bytes->reason.empty()
                                   ? report.bytes->reason
                                   : "a verdict is not \"equal\"";
    AddFailure(out, reason);
    if (report.bytes && !report.bytes->findings.empty() &&
        report.bytes->findings.front().message != reason) {
      AddReason(out, report.bytes->findings.front().message);
    }
  }
  return out;
}

}  // namespace kvbed
