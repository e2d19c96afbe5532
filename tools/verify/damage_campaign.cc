// Damage to what a store under test wrote, done between its closing and its opening: it may refuse,
// miss or still give the right bytes. Wrong bytes that it doesn't notice are the store's failure.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <vector>

#include "tools/interrupt.h"
#include "tools/verify/campaigns.h"
#include "tools/verify/case_outcome.h"
#include "tools/verify/damage_folder.h"
#include "tools/verify/snapshot_change.h"
#include "tools/verify/store_under_test.h"
#include "verify/seeded_snapshot.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDamagePrefix = "store/damage/";
constexpr uint64_t kDamageRecordBytes = 28'672;
constexpr uint64_t kDamageSnapshots = 3;
constexpr uint64_t kDamageBlocks = 4;

// Of records in a file: so that each is found by bytes that no other has.
constexpr uint64_t kPatternBytes = 64;

std::vector<Manifest> DamagedSnapshots(uint64_t seed) {
  std::vector<Manifest> snapshots;
  for (uint64_t i = 0; i < kDamageSnapshots; ++i) {
    const std::vector<uint64_t> generations(kDamageBlocks, i + 1);
    snapshots.push_back(SeededManifest(fmt::format("{}damaged-{}", kCampaignPrefix, i),
                                       kDamageRecordBytes, (seed << 8) + i + 1, generations));
  }
  return snapshots;
}

// The beginning of each record's payload, which is what a store has as it is unless it packs it.
std::vector<std::vector<std::byte>> Patterns(const std::vector<Manifest>& snapshots) {
  std::vector<std::vector<std::byte>> patterns;
  auto record = AlignedBuffer::Allocate(kDamageRecordBytes).value();
  for (const Manifest& snapshot : snapshots) {
    for (const RecordId& id : BlockIds(snapshot)) {
      FillSeededRecord(id, record.bytes());
      const Bytes part = Bytes(record.bytes()).subspan(kPageBytes, kPatternBytes);
      patterns.emplace_back(part.begin(), part.end());
    }
  }
  return patterns;
}

Finding WhatTheStoreSaid(Check check, std::string message) {
  Finding finding;
  finding.check = check;
  finding.message = std::move(message);
  return finding;
}

// What the store gives after the damage. Nothing here is an error of the machine.
void JudgeDamaged(const CampaignOptions& options, const std::vector<Manifest>& snapshots,
                  const std::string& done, CaseResult& result) {
  const auto found = [&](Check check, std::string_view how, const Status& status) {
    ++result.faults_found;
    result.finding =
        WhatTheStoreSaid(check, fmt::format("{}: {}: {}", done, how, status.ToString()));
  };
  auto store = options.open(nullptr, *options.store,
                            {.access = StoreAccess::kRead, .defaults = options.settings});
  if (!store.ok()) return found(Check::kStore, "refused", store.status());
  SnapshotReading reading;
  for (const Manifest& expected : snapshots) {
    const auto there = (*store)->ReadManifest(expected.name);
    if (!there.ok()) {
      SnapshotReading one;
      (there.status().code() == StatusCode::kNotFound ? one.missed : one.refused) = 1;
      one.first_error = there.status();
      reading.Add(one);
    } else if (!SameRecords(*there, expected)) {
      SnapshotReading one;
      one.wrong = 1;
      one.finding = WhatTheStoreSaid(
          Check::kManifest, fmt::format("{} names records that it never had", expected.name));
      reading.Add(one);
    } else {
      reading.Add(ReadRecords(**store, *there));
    }
  }
  if (reading.wrong > 0) {
    result.served_wrong += reading.wrong;
    FailCase(result,
             fmt::format("{}: the store returned wrong bytes without an error: {}", done,
                         reading.Problem()),
             reading.finding);
  } else if (reading.refused > 0) {
    found(Check::kStore, "refused", reading.first_error);
  } else if (reading.missed > 0) {
    found(Check::kMissing, "missed", reading.first_error);
  } else {
    ++result.faults_repaired;
  }
}

// The snapshots, in a store that is closed again.
Status WriteDamaged(const CampaignOptions& options, const std::vector<Manifest>& snapshots) {
  KVBED_ASSIGN_OR_RETURN(auto store, options.open(nullptr, *options.store,
                                                  {.access = StoreAccess::kCreate,
                                                   .defaults = options.settings,
                                                   .record_bytes_hint = kDamageRecordBytes}));
  KVBED_RETURN_IF_ERROR(RemoveCampaignSnapshots(*store));
  for (const Manifest& snapshot : snapshots) {
    KVBED_RETURN_IF_ERROR(TakeSnapshot(*store, snapshot, CommitMode::kReplace));
  }
  return Status::Ok();
}

// Without damage all is there: else what follows would prove nothing.
bool IsUndamagedWhole(const CampaignOptions& options, const std::vector<Manifest>& snapshots,
                      CaseResult& result) {
  JudgeDamaged(options, snapshots, "nothing was damaged", result);
  if (result.faults_found > 0) {
    FailCase(result, result.finding->message);
    result.faults_found = 0;
  }
  result.faults_repaired = 0;
  return !Failed(result);
}

}  // namespace

Status RunStoreDamage(const CampaignOptions& given, CaseLog& log) {
  if (!log.WantsBelow(kDamagePrefix)) return Status::Ok();
  // Before the store makes its first file.
  FolderInventory older;
  if (given.damage_folder) {
    KVBED_ASSIGN_OR_RETURN(older, ListFolder(*given.damage_folder));
  }
  KVBED_ASSIGN_OR_RETURN(const StoreUnderTest under, LookAtStore(given));
  const CampaignOptions& options = under.options;
  CaseResult before = log.Start(fmt::format("{}none", kDamagePrefix), CaseKind::kControl);
  const auto skip_all = [&](const std::string& reason) {
    SkipCase(before, reason);
    log.Finish(std::move(before));
    return Status::Ok();
  };
  if (!under.skipped.empty()) return skip_all(under.skipped);
  if (!options.damage_folder) return skip_all("no --damage-dir says where the store has its files");
  if (!KeepsFiles(options.store->kind)) {
    return skip_all("the store keeps nothing beyond its process");
  }
  const std::string& folder = *options.damage_folder;
  const std::vector<Manifest> snapshots = DamagedSnapshots(before.seed);
  KVBED_RETURN_IF_ERROR(WriteDamaged(options, snapshots).WithContext(before.name));
  const std::string backup = options.work_folder + "/damage";
  KVBED_ASSIGN_OR_RETURN(const DamageFolder damaged, DamageFolder::Keep(folder, older, backup));
  if (damaged.files().empty()) {
    return skip_all(fmt::format("the store wrote no file in {}", folder));
  }
  if (!IsUndamagedWhole(options, snapshots, before)) {
    log.Finish(std::move(before));
    return Status::Ok();
  }
  KVBED_RETURN_IF_ERROR(damaged.PutBack());
  const auto patterns = Patterns(snapshots);
  KVBED_ASSIGN_OR_RETURN(const auto places, damaged.Find({patterns.begin(), patterns.end()}));
  if (log.Wants(before.name)) log.Finish(std::move(before));

  const uint64_t cases = options.profile == VerifyProfile::kFull ? 100 : 10;
  for (const DamageKind kind : kDamageKinds) {
    for (uint64_t i = 0; i < cases; ++i) {
      const std::string name = fmt::format("{}{}/{}", kDamagePrefix, DamageKindName(kind), i);
      if (!log.Wants(name)) continue;
      CaseResult result = log.Start(name, CaseKind::kFault);
      std::mt19937_64 random(result.seed);
      const auto done = damaged.Damage(kind, places, random);
      if (done.ok()) {
        ++result.faults_injected;
        JudgeDamaged(options, snapshots, *done, result);
      } else {
        FailCase(result, "nothing was injected: " + done.status().ToString());
      }
      KVBED_RETURN_IF_ERROR(damaged.PutBack().WithContext(name));
      log.Finish(std::move(result));
    }
  }
  std::error_code ignored;
  fs::remove_all(backup, ignored);
  if (log.stopped()) return InterruptedStatus();
  return CleanStore(options.open, *options.store, options.settings);
}

}  // namespace kvbed
