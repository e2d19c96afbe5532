// Crashes: kvbed's own stores killed at every kind of operation and cut off from power, and a
// store under test killed and opened again.
#include <fmt/format.h>

#include <filesystem>

#include "tools/verify/campaigns.h"
#include "tools/verify/case_outcome.h"
#include "tools/verify/crash_rounds.h"
#include "tools/verify/small_stores.h"
#include "tools/verify/snapshot_change.h"
#include "tools/verify/store_under_test.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

// Seven stores: above 200 rounds of either kind.
uint64_t RoundsOf(const CampaignOptions& options) {
  return options.profile == VerifyProfile::kFull ? 300 : 30;
}

// One case: `play` fills in what came of it, in a folder that goes afterwards.
template <class Play>
Status RunOwnCrashCase(const CampaignOptions& options, const SmallStore& one,
                       const std::string& how, CaseLog& log, Play play) {
  const std::string name = fmt::format("crash/{}/{}", one.name, how);
  if (!log.Wants(name)) return Status::Ok();
  CaseResult result = log.Start(name, CaseKind::kCrash);
  const std::string folder = options.work_folder + "/crash";
  CrashRounds rounds;
  rounds.spec = one.SpecIn(folder, true);
  rounds.rounds = RoundsOf(options);
  rounds.operations = one.crash_operations;
  rounds.own = CrashRounds::Own{.to_the_byte = one.to_the_byte};
  Status status;
  if (const Status here = IsStoreHere(rounds.spec); !here.ok()) {
    SkipCase(result, here.message());
  } else {
    status = play(rounds, result);
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  KVBED_RETURN_IF_ERROR(status.WithContext(name));
  log.Finish(std::move(result));
  return Status::Ok();
}

}  // namespace

Status RunCrashes(const CampaignOptions& options, CaseLog& log) {
  for (const SmallStore& one : SmallFileStores()) {
    KVBED_RETURN_IF_ERROR(RunOwnCrashCase(options, one, "kill", log,
                                          [&](const CrashRounds& rounds, CaseResult& result) {
                                            return RunKillRounds(options, rounds, result);
                                          }));
    for (const FaultKind how : {FaultKind::kLostWrites, FaultKind::kReorderedWrites}) {
      KVBED_RETURN_IF_ERROR(
          RunOwnCrashCase(options, one, fmt::format("power_cut/{}", FaultKindName(how)), log,
                          [&](const CrashRounds& rounds, CaseResult& result) {
                            return RunPowerCutRounds(options, rounds, how, result);
                          }));
    }
  }
  return Status::Ok();
}

Status RunStoreCrashes(const CampaignOptions& given, CaseLog& log) {
  const std::string name = "store/crash/kill";
  if (!log.Wants(name)) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(const StoreUnderTest under, LookAtStore(given));
  const CampaignOptions& options = under.options;
  CaseResult result = log.Start(name, CaseKind::kCrash);
  CrashRounds rounds;
  rounds.spec = *options.store;
  rounds.rounds = RoundsOf(options);
  if (!under.skipped.empty()) {
    SkipCase(result, under.skipped);
  } else if (!KeepsFiles(rounds.spec.kind)) {
    SkipCase(result, "the store keeps nothing beyond its process");
  } else {
    const auto run = IsExternal(rounds.spec.kind) ? RunExternalKillRounds : RunKillRounds;
    KVBED_RETURN_IF_ERROR(run(options, rounds, result).WithContext(name));
    if (!Failed(result)) {
      KVBED_RETURN_IF_ERROR(CleanStore(options.open, rounds.spec, options.settings));
    }
  }
  log.Finish(std::move(result));
  return Status::Ok();
}

}  // namespace kvbed
