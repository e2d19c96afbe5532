#include "tools/verify/crash_rounds.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "backends/external_store.h"
#include "backends/faulty_io.h"
#include "tools/interrupt.h"
#include "tools/verify/case_outcome.h"
#include "tools/verify/snapshot_change.h"
#include "tools/verify/store_opener.h"
#include "tools/verify/verify_child.h"
#include "tools/verify/verify_worker.h"

namespace kvbed {
namespace {

constexpr uint64_t kChangesPerRound = 8;
constexpr uint64_t kDelayUsMax = 30'000;

struct KillWay {
  const char* name;
  std::optional<FaultTarget> target;
  uint64_t first_max;  // how many of them there are in a round, about; 0: see CrashRounds
};
constexpr KillWay kKillWays[] = {
    {"write", FaultTarget::kWrite, 40},  {"sync", FaultTarget::kSync, 16},
    {"rename", FaultTarget::kRename, 5}, {"unlink", FaultTarget::kUnlink, 3},
    {"operation", FaultTarget::kAny, 0}, {"moment", std::nullopt, 0},
};

Result<std::unique_ptr<BlockStore>> OpenCrashed(const CampaignOptions& options,
                                                const StoreSpec& spec, StoreAccess access) {
  return options.open(nullptr, spec, {.access = access, .defaults = options.settings});
}

// What the store looks like to the next one that opens it. Returns whether all is well.
bool CheckAfterCrash(const CampaignOptions& options, const CrashRounds& rounds,
                     SnapshotOracle& oracle, const std::string& round, CaseResult& result) {
  auto store = OpenCrashed(options, rounds.spec, StoreAccess::kWrite);
  if (!store.ok()) {
    FailCase(result,
             fmt::format("{}: the store can't be opened: {}", round, store.status().ToString()));
    return false;
  }
  const std::string prefix = rounds.own ? "" : std::string(kCampaignPrefix);
  const bool counts = rounds.own.has_value();
  if (!TakeVerdict(result, oracle.Check(**store, {prefix, counts}), round)) return false;
  if (!rounds.own) return true;
  const RoomOptions room = {kCampaignSlots, kCampaignRecordBytes, rounds.own->to_the_byte};
  return TakeVerdict(result, CheckRoom(**store, oracle, room), round);
}

// The store as the first round finds it.
Status MakeStore(const CampaignOptions& options, const CrashRounds& rounds,
                 SnapshotOracle& oracle) {
  KVBED_ASSIGN_OR_RETURN(auto store, OpenCrashed(options, rounds.spec, StoreAccess::kCreate));
  KVBED_RETURN_IF_ERROR(RemoveCampaignSnapshots(*store));
  KVBED_ASSIGN_OR_RETURN(const SnapshotStates none, ReadCampaignSnapshots(*store, ""));
  for (const auto& [name, state] : none) oracle.Settle(name, state);
  return Status::Ok();
}

// Tells the oracle what the child does until it is dead. Returns what went wrong in the child.
Result<std::string> FollowChild(VerifyChild& child, SnapshotOracle& oracle) {
  std::string failure;
  while (true) {
    KVBED_ASSIGN_OR_RETURN(const std::optional<std::string> line, child.Next());
    if (!line) break;
    if (line->starts_with(kChangeBegins)) {
      KVBED_ASSIGN_OR_RETURN(const SnapshotChange change,
                             SnapshotChange::Parse(line->substr(kChangeBegins.size())));
      oracle.Begin(change.name, change.state());
    } else if (*line == kChangeDone) {
      oracle.End();
    } else {
      failure = *line;
    }
  }
  if (child.end() != JobEnd{.by_signal = true, .code = SIGKILL} && failure.empty()) {
    failure = fmt::format("it ended by {} {}", child.end().by_signal ? "signal" : "exit code",
                          child.end().code);
  }
  return failure;
}

}  // namespace

Status RunKillRounds(const CampaignOptions& options, const CrashRounds& rounds,
                     CaseResult& result) {
  SnapshotOracle oracle;
  KVBED_RETURN_IF_ERROR(MakeStore(options, rounds, oracle));
  KVBED_ASSIGN_OR_RETURN(
      VerifyChild child,
      VerifyChild::Start(options.child_command, SpecWithSettings(rounds.spec, options.settings)));
  std::mt19937_64 random(result.seed);
  const bool seam = IsOverTheSeam(rounds.spec.kind);
  for (uint64_t i = 0; i < rounds.rounds; ++i) {
    if (Interrupted()) return InterruptedStatus();
    const KillWay& way = seam ? kKillWays[i % std::size(kKillWays)] : kKillWays[5];
    ChangesJob job{.seed = random(), .target = way.target, .changes = kChangesPerRound};
    const uint64_t point = random();
    std::string at;
    if (way.target) {
      job.first = point % (way.first_max == 0 ? rounds.operations : way.first_max);
      at = fmt::format("before {} {}", way.name, job.first);
    } else {
      job.after_us = point % kDelayUsMax;
      at = fmt::format("after {} us", *job.after_us);
    }
    const std::string round = fmt::format("round {}, killed {}", i, at);
    KVBED_RETURN_IF_ERROR(child.Send(job.Line()));
    KVBED_ASSIGN_OR_RETURN(const std::string failure, FollowChild(child, oracle));
    if (!failure.empty()) {
      FailCase(result, fmt::format("{}: the child wasn't killed: {}", round, failure));
      return Status::Ok();
    }
    ++result.faults_injected;
    if (!CheckAfterCrash(options, rounds, oracle, round, result)) return Status::Ok();
    ++result.faults_repaired;
  }
  return Status::Ok();
}

Status RunExternalKillRounds(const CampaignOptions& options, const CrashRounds& rounds,
                             CaseResult& result) {
  constexpr uint64_t kChangesMax = 10'000;
  SnapshotOracle oracle;
  KVBED_RETURN_IF_ERROR(MakeStore(options, rounds, oracle));
  std::mt19937_64 random(result.seed);
  for (uint64_t i = 0; i < rounds.rounds; ++i) {
    if (Interrupted()) return InterruptedStatus();
    const std::chrono::microseconds delay(random() % kDelayUsMax);
    const std::string round = fmt::format("round {}, killed after {} us", i, delay.count());
    auto store = OpenCrashed(options, rounds.spec, StoreAccess::kWrite);
    if (!store.ok()) {
      FailCase(result, fmt::format("{}: it can't be opened: {}", round, store.status().ToString()));
      return Status::Ok();
    }
    std::thread killer([&] {
      std::this_thread::sleep_for(delay);
      KillExternalStore(**store);
    });
    for (uint64_t k = 0; k < kChangesMax && !oracle.stopped(); ++k) {
      const SnapshotChange change = NextChange(random, oracle.Settled());
      oracle.Step(change.name, change.state(), [&] { return change.ApplyTo(**store); })
          .IgnoreError();
    }
    killer.join();
    store->reset();
    if (!oracle.stopped()) {
      FailCase(result, fmt::format("{}: it went on as if nothing had happened", round));
      return Status::Ok();
    }
    ++result.faults_injected;
    oracle.GoOn();
    if (!CheckAfterCrash(options, rounds, oracle, round, result)) return Status::Ok();
    ++result.faults_repaired;
  }
  return Status::Ok();
}

Status RunPowerCutRounds(const CampaignOptions& options, const CrashRounds& rounds, FaultKind how,
                         CaseResult& result) {
  SnapshotOracle oracle;
  KVBED_RETURN_IF_ERROR(MakeStore(options, rounds, oracle));
  std::mt19937_64 random(result.seed);
  const IoEngine engine = EffectiveSettings(rounds.spec, options.settings).ioengine;
  for (uint64_t i = 0; i < rounds.rounds; ++i) {
    if (Interrupted()) return InterruptedStatus();
    const uint64_t at = random() % rounds.operations;
    const std::string round =
        fmt::format("round {}, power cut ({}) before operation {}", i, FaultKindName(how), at);
    FaultDevice device({.seed = random(), .faults = {{.kind = how, .first = at}}});
    {
      KVBED_ASSIGN_OR_RETURN(auto io, OpenIo(engine));
      auto store = options.open(MakeFaultyIo(std::move(io), device), rounds.spec,
                                {.access = StoreAccess::kWrite, .defaults = options.settings});
      for (uint64_t k = 0; store.ok() && k < kChangesPerRound && !oracle.stopped(); ++k) {
        const SnapshotChange change = NextChange(random, oracle.Settled());
        oracle.Step(change.name, change.state(), [&] { return change.ApplyTo(**store); })
            .IgnoreError();
      }
      // What a close still does comes after the cut.
      device.PowerCut(how);
    }
    if (Status played = device.power_cut_status(); !played.ok()) {
      FailCase(result, fmt::format("{}: it couldn't be played: {}", round, played.ToString()));
      return Status::Ok();
    }
    ++result.faults_injected;
    oracle.GoOn();
    if (!CheckAfterCrash(options, rounds, oracle, round, result)) return Status::Ok();
    ++result.faults_repaired;
  }
  return Status::Ok();
}

}  // namespace kvbed
