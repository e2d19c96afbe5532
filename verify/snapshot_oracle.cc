#include "verify/snapshot_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "verify/seeded_snapshot.h"

namespace kvbed {
namespace {

void NoteProblem(OracleVerdict& verdict, std::string problem) {
  if (verdict.problem.empty()) verdict.problem = std::move(problem);
}

bool IsNothing(const SnapshotOracle::State& state) { return !state.has_value(); }

// Sequences of their own, so that no snapshot has these records.
constexpr uint64_t kFillerSequence = 0xF111'E400;

Manifest Filler(const RoomOptions& options, uint64_t sequence, uint64_t blocks) {
  const std::vector<uint64_t> generations(blocks, 1);
  return SeededManifest("filler", options.record_bytes, kFillerSequence + sequence, generations);
}

}  // namespace

void SnapshotOracle::Begin(const std::string& name, const State& to) {
  std::vector<State>& allowed = allowed_[name];
  if (allowed.empty()) allowed.emplace_back();
  allowed.push_back(to);
  if (to) earlier_[name].push_back(*to);
  changing_ = name;
}

void SnapshotOracle::End() {
  std::vector<State>& allowed = allowed_[changing_];
  allowed = {allowed.back()};
  ++steps_done_;
}

Status SnapshotOracle::Step(const std::string& name, const State& to,
                            const std::function<Status()>& change) {
  if (stopped_) return Status::Ok();
  Begin(name, to);
  Status status = change();
  if (status.ok()) {
    End();
  } else {
    stopped_ = true;
  }
  return status;
}

Status SnapshotOracle::Snapshot(BlockStore& store, const Manifest& manifest) {
  return Step(manifest.name, manifest,
              [&] { return TakeSnapshot(store, manifest, CommitMode::kReplace); });
}

Status SnapshotOracle::Remove(BlockStore& store, const std::string& name) {
  return Step(name, std::nullopt, [&] { return store.RemoveManifest(name); });
}

void SnapshotOracle::CheckName(BlockStore& store, const std::string& name,
                               std::vector<State>& allowed, OracleVerdict& verdict) const {
  const auto there = store.ReadManifest(name);
  if (!there.ok()) {
    if (there.status().code() != StatusCode::kNotFound) {
      NoteProblem(verdict, fmt::format("{}: {}", name, there.status().ToString()));
    } else if (std::ranges::none_of(allowed, IsNothing)) {
      NoteProblem(verdict, fmt::format("{} is gone, which was committed", name));
    }
    allowed = {std::nullopt};
    return;
  }
  const auto found = std::ranges::find_if(
      allowed, [&](const State& one) { return one && SameRecords(*one, *there); });
  if (found == allowed.end()) {
    ++verdict.served_wrong;
    const auto earlier = earlier_.find(name);
    const bool had =
        earlier != earlier_.end() && std::ranges::any_of(earlier->second, [&](const Manifest& one) {
          return SameRecords(one, *there);
        });
    NoteProblem(verdict, had ? fmt::format("{} is in an older state than was committed", name)
                             : fmt::format("{} names records that it never had", name));
    allowed = {*there};
    return;
  }
  const SnapshotReading reading = ReadRecords(store, *there);
  if (!reading.whole()) {
    NoteProblem(verdict, fmt::format("{} isn't whole: {}", name, reading.Problem()));
    verdict.served_wrong += reading.wrong;
    if (!verdict.finding) verdict.finding = reading.finding;
  }
  const State state = *found;
  allowed = {state};
}

OracleVerdict SnapshotOracle::Check(BlockStore& store, const CheckOptions& options) {
  OracleVerdict verdict;
  const auto listed = store.ListManifests();
  if (!listed.ok()) {
    NoteProblem(verdict, listed.status().ToString());
    return verdict;
  }
  for (const ManifestSummary& summary : *listed) {
    if (!summary.name.starts_with(options.prefix)) continue;
    if (!summary.status.ok()) {
      NoteProblem(verdict, fmt::format("{}: {}", summary.name, summary.status.ToString()));
    }
    if (!allowed_.contains(summary.name)) {
      NoteProblem(verdict, fmt::format("{} is listed, which nobody committed", summary.name));
    }
  }
  std::set<RecordId> records;
  for (auto& [name, allowed] : allowed_) {
    CheckName(store, name, allowed, verdict);
    if (!allowed.front()) continue;
    for (const RecordId& id : BlockIds(*allowed.front())) records.insert(id);
    const bool is_listed =
        std::ranges::any_of(*listed, [&](const auto& one) { return one.name == name; });
    if (!is_listed) NoteProblem(verdict, fmt::format("{} can be read and isn't listed", name));
  }
  if (options.counts_records && store.info().records != records.size()) {
    NoteProblem(verdict, fmt::format("{} records are in use, and the snapshots name {}",
                                     store.info().records, records.size()));
  }
  return verdict;
}

std::map<std::string, SnapshotOracle::State> SnapshotOracle::Settled() const {
  std::map<std::string, State> settled;
  for (const auto& [name, allowed] : allowed_) settled[name] = allowed.front();
  return settled;
}

OracleVerdict CheckRoom(BlockStore& store, SnapshotOracle& oracle, const RoomOptions& options) {
  const uint64_t free = options.slots - store.info().records;
  OracleVerdict verdict;
  if (options.to_the_byte && store.info().free_bytes != free * options.record_bytes) {
    NoteProblem(verdict, fmt::format("{} bytes are said to be free, and {} slots of {} bytes are",
                                     store.info().free_bytes, free, options.record_bytes));
  }
  const Manifest filler = Filler(options, 0, free);
  if (Status status = PutRecords(store, filler); !status.ok()) {
    NoteProblem(verdict, "space didn't come back: " + status.ToString());
  } else if (const SnapshotReading reading = ReadRecords(store, filler); !reading.whole()) {
    verdict.served_wrong += reading.wrong;
    if (!verdict.finding) verdict.finding = reading.finding;
    NoteProblem(verdict, "a record in a slot that came free: " + reading.Problem());
  } else if (options.to_the_byte &&
             PutRecords(store, Filler(options, 1, 1)).code() != StatusCode::kOutOfSpace) {
    NoteProblem(verdict, "a full store took one more record");
  }
  store.Discard(BlockIds(filler));
  OracleVerdict after = oracle.Check(store);
  NoteProblem(verdict, after.problem);
  verdict.served_wrong += after.served_wrong;
  if (!verdict.finding) verdict.finding = after.finding;
  return verdict;
}

}  // namespace kvbed
