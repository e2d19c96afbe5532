#include "tools/store/check_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "tools/console.h"
#include "tools/exit_code.h"
#include "tools/rates.h"
#include "tools/store/opened_store.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

// Of leftovers that are the same again and again; -o json names more.
constexpr uint64_t kLeftoverLinesMax = 20;

std::string FindingLine(std::string_view word, std::string_view what) {
  return fmt::format("{:<13} {}\n", word, Printable(what));
}

std::string NamesText(const std::vector<std::string>& names) {
  return fmt::format("{} {}", names.size() == 1 ? "snapshot" : "snapshots", fmt::join(names, ", "));
}

std::string RecordText(const RecordFinding& one) {
  const Finding& finding = one.finding;
  std::string text =
      fmt::format("{}, block {}", NamesText(one.snapshots), finding.id.key.block_index);
  if (finding.first_token && finding.token_count) {
    text += fmt::format(" (tokens {} to {})", *finding.first_token,
                        *finding.first_token + *finding.token_count - 1);
  }
  text += fmt::format(": {}: {}", CheckName(finding.check), finding.message);
  if (finding.damage) text += fmt::format("; {}", DamageName(*finding.damage));
  if (finding.other_id)
    text += fmt::format(": it is the record of {}", finding.other_id->ToString());
  if (!finding.place.empty()) text += fmt::format("; {}", finding.place);
  if (finding.reread && *finding.reread != Reread::kSame) {
    text += *finding.reread == Reread::kGood        ? "; right when it was read again"
            : *finding.reread == Reread::kDifferent ? "; other bytes when it was read again"
                                                    : "; not readable a second time";
  }
  return text;
}

bool IsMissing(const RecordFinding& one) { return one.finding.check == Check::kMissing; }

std::string SnapshotLines(const StoreCheck& check) {
  std::string text;
  for (const CheckedSnapshot& snapshot : check.snapshots) {
    if (snapshot.summary.status.ok()) continue;
    text += FindingLine(SnapshotStateName(snapshot.state),
                        fmt::format("manifest of {}: {}", snapshot.summary.name, snapshot.why));
  }
  for (const RecordFinding& one : check.findings) {
    text += FindingLine(IsMissing(one) ? "missing" : "damaged", RecordText(one));
  }
  const uint64_t bad = check.damaged_records + check.missing_records;
  if (bad > check.findings.size()) {
    text += FindingLine(
        "", fmt::format("and {} more", Count(bad - check.findings.size(), "record", "records")));
  }
  for (const UnreadRecord& one : check.unread) {
    text += FindingLine("unread", fmt::format("{}, block {}: {}", NamesText(one.snapshots),
                                              one.id.key.block_index, one.status.message()));
  }
  if (check.unread_records > check.unread.size()) {
    text += FindingLine(
        "", fmt::format("and {} more",
                        Count(check.unread_records - check.unread.size(), "record", "records")));
  }
  return text;
}

std::string LeftoverText(const Leftover& one) {
  std::string text;
  if (one.id) text += fmt::format("the record of {}: ", one.id->ToString());
  text += one.path;
  if (one.place_is_free) text += fmt::format(" at {}, in a free slot", one.offset);
  return text + fmt::format(", {} bytes", Thousands(one.size_bytes));
}

std::string LeftoverLines(const Leftovers& leftovers, LeftoverKind kind, std::string_view word,
                          std::string_view remark) {
  std::string text;
  uint64_t lines = 0;
  for (const Leftover& one : leftovers.named()) {
    if (one.kind != kind || lines == kLeftoverLinesMax) continue;
    ++lines;
    text += FindingLine(word, LeftoverText(one) + std::string(remark));
  }
  const LeftoverTotal& total = leftovers.total(kind);
  if (total.count > lines) {
    text +=
        FindingLine("", fmt::format("and {} more, in all {} bytes (-o json names them)",
                                    Thousands(total.count - lines), Thousands(total.size_bytes)));
  }
  return text;
}

uint64_t InState(const StoreCheck& check, SnapshotState state) {
  return static_cast<uint64_t>(
      std::count_if(check.snapshots.begin(), check.snapshots.end(),
                    [&](const CheckedSnapshot& one) { return one.state == state; }));
}

uint64_t LostSnapshots(const StoreCheck& check) {
  return static_cast<uint64_t>(std::count_if(check.snapshots.begin(), check.snapshots.end(),
                                             [](const CheckedSnapshot& one) { return one.lost; }));
}

std::string CheckedLine(const CheckReport& report) {
  const StoreCheck& check = report.check;
  std::string text =
      fmt::format("{}, {}, {} bytes", Count(check.snapshots.size(), "snapshot", "snapshots"),
                  Count(check.records, "record", "records"), Thousands(check.read_bytes));
  if (const auto rate = GbPerS(check.read_bytes, check.wall_ns)) {
    text += fmt::format(" in {} = {:.3f} GB/s, verifying {}", Duration(check.wall_ns), *rate,
                        Duration(check.verify_ns));
  }
  if (!report.store.direct && check.read_bytes > 0) text += "; through the page cache";
  return FindingLine("checked", text);
}

std::string VerdictText(const CheckReport& report) {
  const StoreCheck& check = report.check;
  const std::string all = Count(check.snapshots.size(), "snapshot", "snapshots");
  std::string text;
  const auto add = [&](SnapshotState state, std::string_view what) {
    const uint64_t count = InState(check, state);
    if (count == 0) return;
    text += fmt::format("{}{} of {} {}", text.empty() ? "" : "; ", Thousands(count), all, what);
  };
  add(SnapshotState::kDamaged, "damaged");
  add(SnapshotState::kUnread, "could not be read in whole");
  add(SnapshotState::kNewer, "written by a newer kvbed, and left as they are");
  if (!check.leftovers_status.ok()) {
    text += fmt::format("{}what lies beside the snapshots can't be told: {}",
                        text.empty() ? "" : "; ", check.leftovers_status.message());
  }
  if (text.empty()) text = check.snapshots.empty() ? "no snapshot" : "whole";
  if (!report.outcome && LostSnapshots(check) > 0) {
    text += fmt::format("; `kvbed store check '{}' --repair` drops what is damaged", report.spec);
  }
  return text;
}

std::string RepairLines(const RepairOutcome& outcome) {
  if (!outcome.changed && outcome.repair.failure.ok()) {
    return FindingLine("repaired", "nothing: there is nothing to drop");
  }
  std::string text;
  for (const DroppedSnapshot& one : outcome.repair.dropped) {
    text += FindingLine("dropped", fmt::format("snapshot {}: {}", one.name, one.why));
  }
  for (const DroppedSnapshot& one : outcome.repair.kept) {
    text += FindingLine("kept", fmt::format("snapshot {}: {}", one.name, one.why));
  }
  if (!outcome.repair.failure.ok()) {
    text += FindingLine("failed", outcome.repair.failure.message());
  }
  if (!outcome.changed) return text;
  return text +
         FindingLine(
             "repaired",
             fmt::format("{} dropped, {} swept; {} of {} bytes freed, {} bytes are the "
                         "filesystem's again",
                         Count(outcome.repair.dropped.size(), "snapshot", "snapshots"),
                         Count(outcome.swept, "leftover", "leftovers"),
                         Count(outcome.freed_records, "record", "records"),
                         Thousands(outcome.freed_bytes), Thousands(outcome.filesystem_bytes_back)));
}

// ---- JSON
// ----------------------------------------------------------------------------------------

Json CheckedSnapshotJson(const CheckedSnapshot& snapshot, Json out) {
  out["state"] = std::string(SnapshotStateName(snapshot.state));
  out["damaged_records"] = snapshot.damaged_records;
  out["missing_records"] = snapshot.missing_records;
  out["unread_records"] = snapshot.unread_records;
  return out;
}

Json LeftoversJson(const Leftovers& leftovers, LeftoverKind kind) {
  Json out = Json::array();
  for (const Leftover& one : leftovers.named()) {
    if (one.kind != kind) continue;
    Json entry;
    entry["path"] = one.path;
    if (one.id) {
      entry["id"] = one.id->ToHex();
      entry["offset"] = one.offset;
      entry["place_is_free"] = one.place_is_free;
    }
    entry["size_bytes"] = one.size_bytes;
    out.push_back(std::move(entry));
  }
  return out;
}

Json BadJson(const StoreCheck& check, bool missing) {
  Json out = Json::array();
  for (const CheckedSnapshot& snapshot : check.snapshots) {
    if (missing || snapshot.summary.status.ok() || !snapshot.lost) continue;
    out.push_back({{"manifest", snapshot.summary.name}, {"message", snapshot.why}});
  }
  for (const RecordFinding& one : check.findings) {
    if (IsMissing(one) != missing) continue;
    out.push_back({{"id", one.finding.id.ToHex()},
                   {"snapshots", one.snapshots},
                   {"message", one.finding.message}});
  }
  return out;
}

Json DroppedJson(const std::vector<DroppedSnapshot>& snapshots) {
  Json out = Json::array();
  for (const DroppedSnapshot& one : snapshots)
    out.push_back({{"name", one.name}, {"why", one.why}});
  return out;
}

Json RepairJson(const RepairOutcome& outcome) {
  Json out;
  out["changed"] = outcome.changed;
  out["dropped"] = DroppedJson(outcome.repair.dropped);
  out["kept"] = DroppedJson(outcome.repair.kept);
  out["swept"] = outcome.swept;
  out["freed_records"] = outcome.freed_records;
  out["freed_bytes"] = outcome.freed_bytes;
  out["filesystem_bytes_back"] = outcome.filesystem_bytes_back;
  return out;
}

}  // namespace

int ExitCodeOf(const CheckReport& report) {
  const bool damaged_beside = report.check.leftovers_status.code() == StatusCode::kCorruption;
  if (report.check.damaged() || damaged_beside) return kExitFailedCheck;
  const bool failed = report.outcome && !report.outcome->repair.failure.ok();
  return report.check.all_read() && !failed ? kExitOk : kExitUnusable;
}

std::string CheckText(const CheckReport& report) {
  const StoreCheck& check = report.check;
  std::string text = SnapshotLines(check);
  const bool unsure =
      InState(check, SnapshotState::kNewer) + InState(check, SnapshotState::kUnread) > 0;
  text += LeftoverLines(check.leftovers, LeftoverKind::kRecord, "unreferenced",
                        unsure ? "; a manifest that could not be read may name it" : "");
  text += LeftoverLines(check.leftovers, LeftoverKind::kTemporary, "temporary", "");
  text += LeftoverLines(check.leftovers, LeftoverKind::kUnknown, "unknown",
                        ": not the store's, left alone");
  text += CheckedLine(report);
  text += FindingLine("result", VerdictText(report));
  if (report.outcome) text += RepairLines(*report.outcome);
  return text;
}

void AddCheckJson(const CheckReport& report, Json& json) {
  const StoreCheck& check = report.check;
  Json figures;
  SetTextOrReason(figures, "snapshot", report.snapshot, "all were checked");
  figures["records"] = check.records;
  figures["read_bytes"] = check.read_bytes;
  figures["wall_ns"] = check.wall_ns;
  figures["verify_ns"] = check.verify_ns;
  SetOrReason(figures, "gb_per_s", GbPerS(check.read_bytes, check.wall_ns), "nothing was read");
  figures["damaged_records"] = check.damaged_records;
  figures["missing_records"] = check.missing_records;
  figures["unread_records"] = check.unread_records;
  for (const auto& [name, kind] : {std::pair{"unreferenced", LeftoverKind::kRecord},
                                   std::pair{"temporary", LeftoverKind::kTemporary},
                                   std::pair{"unknown", LeftoverKind::kUnknown}}) {
    figures[fmt::format("{}_count", name)] = check.leftovers.total(kind).count;
    figures[fmt::format("{}_bytes", name)] = check.leftovers.total(kind).size_bytes;
  }
  json["check"] = std::move(figures);
  json["snapshots"] = Json::array();
  for (const CheckedSnapshot& snapshot : check.snapshots) {
    json["snapshots"].push_back(CheckedSnapshotJson(snapshot, SummaryJson(snapshot.summary)));
    if (snapshot.state == SnapshotState::kWhole) continue;
    AddFailure(json, fmt::format("snapshot {} is {}: {}", snapshot.summary.name,
                                 SnapshotStateName(snapshot.state), snapshot.why));
  }
  if (!check.leftovers_status.ok()) AddFailure(json, check.leftovers_status.message());
  json["findings"] = Json::array();
  for (const RecordFinding& one : check.findings) {
    Json finding = FindingJson(one.finding);
    finding["snapshots"] = one.snapshots;
    json["findings"].push_back(std::move(finding));
  }
  json["unread"] = Json::array();
  for (const UnreadRecord& one : check.unread) {
    json["unread"].push_back(
        {{"id", one.id.ToHex()}, {"snapshots", one.snapshots}, {"message", one.status.message()}});
  }
  json["damaged"] = BadJson(check, false);
  json["missing"] = BadJson(check, true);
  json["unreferenced"] = LeftoversJson(check.leftovers, LeftoverKind::kRecord);
  json["temporary"] = LeftoversJson(check.leftovers, LeftoverKind::kTemporary);
  json["unknown"] = LeftoversJson(check.leftovers, LeftoverKind::kUnknown);
  if (!report.outcome) {
    SetNull(json, "repair", "--repair was not given");
    return;
  }
  json["repair"] = RepairJson(*report.outcome);
  if (const Status& failure = report.outcome->repair.failure; !failure.ok()) {
    AddFailure(json, failure.message());
  }
}

}  // namespace kvbed
