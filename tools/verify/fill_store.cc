#include "tools/verify/fill_store.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "tools/verify/snapshot_change.h"
#include "verify/seeded_snapshot.h"
#include "verify/snapshot_oracle.h"

namespace kvbed {
namespace {

std::string FillName(uint64_t number) { return fmt::format("{}fill-{}", kCampaignPrefix, number); }

Manifest FillSnapshot(uint64_t seed, uint64_t number) {
  const std::vector<uint64_t> generations(kFillSnapshotBlocks, 1);
  return SeededManifest(FillName(number), kFillRecordBytes, (seed << 16) + number + 1, generations);
}

void TakeVerdict(FillResult& result, const OracleVerdict& verdict, std::string_view when) {
  if (verdict.ok()) return;
  if (result.problem.empty()) result.problem = fmt::format("{}: {}", when, verdict.problem);
  result.served_wrong += verdict.served_wrong;
  if (!result.finding) result.finding = verdict.finding;
}

}  // namespace

FillResult FillStore(const StoreOpener& opener, const StoreSpec& spec,
                     const StoreSettings& settings, const FillOptions& options) {
  FillResult result;
  const auto open = [&](StoreAccess access) {
    return opener(nullptr, spec,
                  {.access = access, .defaults = settings, .record_bytes_hint = kFillRecordBytes});
  };
  auto store = open(options.access);
  if (!store.ok()) {
    result.opened = store.status();
    return result;
  }
  SnapshotOracle oracle;
  const SnapshotOracle::CheckOptions ours = {
      .prefix = FillName(0).substr(0, FillName(0).size() - 1), .counts_records = false};
  while (result.taken < options.snapshots_max && result.refusal.ok()) {
    result.refusal = oracle.Snapshot(**store, FillSnapshot(options.seed, result.taken));
    if (result.refusal.ok()) ++result.taken;
  }
  TakeVerdict(result, oracle.Check(**store, ours), "after the refusal");
  if (!result.refusal.ok() && (*store)->ReadManifest(FillName(result.taken)).ok() &&
      result.problem.empty()) {
    result.problem = fmt::format("{} was refused and is there", FillName(result.taken));
  }
  store->reset();
  store = open(StoreAccess::kWrite);
  if (!store.ok()) {
    if (result.problem.empty()) {
      result.problem = "the full store can't be reopened: " + store.status().ToString();
    }
    return result;
  }
  TakeVerdict(result, oracle.Check(**store, ours), "after it was reopened");
  oracle.GoOn();
  // Half of it goes; then there is room for as many again, less what the refusal found in its way.
  const uint64_t removed = (result.taken + 1) / 2;
  Status again;
  for (uint64_t i = 0; i < removed && again.ok(); ++i) again = oracle.Remove(**store, FillName(i));
  if (again.ok() && removed > 0) {
    again = oracle.Snapshot(**store, FillSnapshot(options.seed, result.taken + 1));
  }
  if (!again.ok() && result.problem.empty() && CanRemoveRecords(**store)) {
    result.problem =
        fmt::format("{} of {} snapshots were removed, and there is no room for one: {}", removed,
                    result.taken, again.ToString());
  }
  oracle.GoOn();
  TakeVerdict(result, oracle.Check(**store, ours), "after some were removed");
  if (Status cleaned = RemoveCampaignSnapshots(**store); !cleaned.ok() && result.problem.empty()) {
    result.problem = "a snapshot can't be removed: " + cleaned.ToString();
  }
  return result;
}

}  // namespace kvbed
