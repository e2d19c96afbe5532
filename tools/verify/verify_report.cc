#include "tools/verify/verify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/console.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

constexpr size_t kReasonsMax = 20;  // in the result's own list

// "roundtrip/records/slab" of "roundtrip/records/slab/same/...": what one line counts.
std::string GroupOf(std::string_view name) {
  const auto slashes = static_cast<size_t>(std::count(name.begin(), name.end(), '/'));
  const size_t parts = std::min<size_t>(3, slashes);
  size_t end = 0;
  for (size_t part = 0; part < parts; ++part) {
    const size_t slash = name.find('/', end);
    if (slash == std::string_view::npos) return std::string(name);
    end = slash + 1;
  }
  return std::string(end == 0 ? name : name.substr(0, end - 1));
}

std::string Seconds(uint64_t ns) { return fmt::format("{:.1f} s", static_cast<double>(ns) / 1e9); }

std::string FaultText(const CaseTotals& totals) {
  if (totals.faults_injected == 0) return {};
  return fmt::format("{} injected, {} repaired, {} found, {} served wrong",
                     Count(totals.faults_injected, "fault", "faults"),
                     Thousands(totals.faults_repaired), Thousands(totals.faults_found),
                     Thousands(totals.served_wrong));
}

std::string HalfText(std::string_view title, std::span<const CaseResult> cases) {
  const CaseTotals totals = TotalsOf(cases);
  std::string text = fmt::format("{}\n  {}: {} passed, {} failed, {} skipped\n", title,
                                 Count(totals.cases, "case", "cases"), Thousands(totals.pass),
                                 Thousands(totals.fail), Thousands(totals.skip));
  for (const CaseKind kind : {CaseKind::kRoundtrip, CaseKind::kFault, CaseKind::kRace,
                              CaseKind::kCrash, CaseKind::kControl}) {
    CaseTotals of_kind;
    for (const CaseResult& one : cases) {
      if (one.kind == kind) of_kind += TotalsOf({&one, 1});
    }
    if (of_kind.cases == 0) continue;
    text += fmt::format("    {:<10} {:>6}", CaseKindName(kind), Thousands(of_kind.cases));
    if (of_kind.fail > 0) text += fmt::format("  {} failed", Thousands(of_kind.fail));
    if (const std::string faults = FaultText(of_kind); !faults.empty()) text += "  " + faults;
    text += '\n';
  }
  if (totals.faults_injected > 0 || totals.served_wrong > 0) {
    text += fmt::format("  {}\n  {} detected = {} repaired + {} found\n", FaultText(totals),
                        Thousands(totals.faults_detected()), Thousands(totals.faults_repaired),
                        Thousands(totals.faults_found));
  }
  return text;
}

Json CaseJson(const CaseResult& one) {
  Json out;
  out["name"] = one.name;
  out["kind"] = CaseKindName(one.kind);
  out["status"] = CaseStatusName(one.status);
  out["reason"] = TextOrNull(one.reason);
  out["seed"] = one.seed;
  out["replay"] = one.replay;
  out["finding"] = one.finding ? FindingJson(*one.finding) : Json();
  out["wall_ns"] = one.wall_ns;
  out["faults_injected"] = one.faults_injected;
  out["faults_repaired"] = one.faults_repaired;
  out["faults_found"] = one.faults_found;
  out["served_wrong"] = one.served_wrong;
  return out;
}

Json TotalsJson(const CaseTotals& totals) {
  return {{"cases", totals.cases},
          {"pass", totals.pass},
          {"fail", totals.fail},
          {"skip", totals.skip},
          {"faults_injected", totals.faults_injected},
          {"faults_repaired", totals.faults_repaired},
          {"faults_found", totals.faults_found},
          {"faults_detected", totals.faults_detected()},
          {"served_wrong", totals.served_wrong}};
}

Json HalfJson(std::span<const CaseResult> cases) {
  Json out;
  out["cases"] = Json::array();
  for (const CaseResult& one : cases) out["cases"].push_back(CaseJson(one));
  out["totals"] = TotalsJson(TotalsOf(cases));
  return out;
}

// Whether anything was assessed: passed or failed.
bool Assessed(std::span<const CaseResult> cases) {
  const CaseTotals totals = TotalsOf(cases);
  return totals.pass + totals.fail > 0;
}

std::string SkipReason(std::span<const CaseResult> cases) {
  for (const CaseResult& one : cases) {
    if (one.status == CaseStatus::kSkip) return one.reason;
  }
  return "no case of it was run";
}

std::string CaseLine(const CaseResult& one) {
  std::string line =
      fmt::format("{}  {}  ({})", CaseStatusName(one.status), one.name, Seconds(one.wall_ns));
  if (const std::string faults = FaultText(TotalsOf({&one, 1})); !faults.empty()) {
    line += "  " + faults;
  }
  if (!one.reason.empty()) line += fmt::format("\n      {}", Printable(one.reason));
  if (one.status == CaseStatus::kFail) {
    if (one.finding && one.finding->message != one.reason) {
      line += fmt::format("\n      {}", Printable(one.finding->message));
    }
    line += fmt::format("\n      seed {}; again: {}", one.seed, Printable(one.replay));
  }
  return line + '\n';
}

}  // namespace

int ExitCodeOf(const VerifyReport& report) {
  const VerifyResult& result = report.result;
  if (TotalsOf(result.self_test).fail + TotalsOf(result.store_under_test).fail > 0) {
    return kExitFailedCheck;
  }
  const bool assessed =
      report.store ? Assessed(result.store_under_test) : Assessed(result.self_test);
  return assessed ? kExitOk : kExitNoVerdict;
}

std::string VerifyText(const VerifyReport& report) {
  const VerifyResult& result = report.result;
  std::string text = "\n" + HalfText("self-test (kvbed's own stores)", result.self_test);
  if (report.store) {
    text += HalfText(fmt::format("store under test: {}", Printable(*report.store)),
                     result.store_under_test);
    for (const std::string& warning : report.store_warnings) {
      text += fmt::format("  note: {}\n", Printable(warning));
    }
  }
  const auto failed = [](std::span<const CaseResult> cases) { return TotalsOf(cases).fail > 0; };
  std::string verdict;
  if (report.stopped) {
    verdict = fmt::format("stopped early, no verdict: {}", Printable(*report.stopped));
  } else if (failed(result.store_under_test)) {
    verdict = "FAILED: the store under test";
  } else if (failed(result.self_test)) {
    verdict = "FAILED: the self-test, so nothing that this says of a store can be trusted";
  } else if (ExitCodeOf(report) == kExitNoVerdict) {
    verdict = fmt::format(
        "no verdict: nothing could be assessed: {}",
        Printable(SkipReason(report.store ? result.store_under_test : result.self_test)));
  } else {
    const bool both = report.store && Assessed(result.self_test);
    verdict = !report.store ? "passed"
              : both        ? "passed: the store under test, and the self-test"
                            : "passed: the store under test; the self-test was not run";
  }
  return text +
         fmt::format("{}  (seed {}, {})\n", verdict, report.header.seed, Seconds(report.wall_ns));
}

Json VerifyJson(const VerifyReport& report) {
  Json out = MakeResult(report.header);
  EnvironmentQuery query;
  query.path = report.environment_path;
  query.seed = report.header.seed;
  out["env"] = EnvironmentJson(ReadEnvironment(query));
  out["profile"] = report.profile;
  SetOrReason(out, "store_spec", report.store, "no --store was given: kvbed tested itself");
  out["store_warnings"] = report.store_warnings;
  out["self_test"] = HalfJson(report.result.self_test);
  out["store_under_test"] = HalfJson(report.result.store_under_test);
  CaseTotals totals = TotalsOf(report.result.self_test);
  totals += TotalsOf(report.result.store_under_test);
  out["totals"] = TotalsJson(totals);
  out["wall_ns"] = report.wall_ns;
  size_t reasons = 0;
  for (const auto* half : {&report.result.self_test, &report.result.store_under_test}) {
    for (const CaseResult& one : *half) {
      if (one.status != CaseStatus::kFail || ++reasons > kReasonsMax) continue;
      AddFailure(out, fmt::format("{}: {}", one.name, one.reason));
    }
  }
  if (reasons > kReasonsMax) {
    AddReason(out, fmt::format("and {} more", Count(reasons - kReasonsMax, "case", "cases")));
  }
  if (ExitCodeOf(report) == kExitNoVerdict) {
    AddFailure(out, fmt::format("nothing could be assessed: {}",
                                SkipReason(report.store ? report.result.store_under_test
                                                        : report.result.self_test)));
  }
  return out;
}

void CaseLines::Add(const CaseResult& one) {
  if (each_) return Print(CaseLine(one));
  if (const std::string group = GroupOf(one.name); group != group_) {
    EndGroup();
    group_ = group;
  }
  totals_ += TotalsOf({&one, 1});
  wall_ns_ += one.wall_ns;
  if (one.status != CaseStatus::kPass) Print(CaseLine(one));
}

Status CaseLines::End() {
  EndGroup();
  return printed_;
}

void CaseLines::EndGroup() {
  if (totals_.cases > 0) {
    std::string line = fmt::format("{}: {} of {} passed", group_, Thousands(totals_.pass),
                                   Count(totals_.cases, "case", "cases"));
    if (totals_.skip > 0) line += fmt::format(", {} skipped", Thousands(totals_.skip));
    if (const std::string faults = FaultText(totals_); !faults.empty()) line += "; " + faults;
    Print(fmt::format("{}  ({})\n", line, Seconds(wall_ns_)));
  }
  totals_ = {};
  wall_ns_ = 0;
}

void CaseLines::Print(const std::string& line) {
  const Status status = kvbed::Print(line);
  if (printed_.ok()) printed_ = status;
}

}  // namespace kvbed
