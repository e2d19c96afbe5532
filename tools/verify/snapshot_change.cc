#include "tools/verify/snapshot_change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "verify/seeded_snapshot.h"

namespace kvbed {
namespace {

constexpr uint64_t kBlocksMax = 4;

uint64_t NewGeneration(std::mt19937_64& random, uint64_t previous) {
  return previous + 1 + random() % 1000;
}

}  // namespace

std::string SnapshotChange::Line() const {
  return fmt::format("{} {} {}", name, sequence_id, fmt::join(generations, " "));
}

Result<SnapshotChange> SnapshotChange::Parse(std::string_view line) {
  std::istringstream words{std::string(line)};
  SnapshotChange change;
  words >> change.name >> change.sequence_id;
  const bool begins = !words.fail();
  for (uint64_t generation = 0; words >> generation;) change.generations.push_back(generation);
  const bool zero = std::ranges::count(change.generations, 0u) > 0;
  if (!begins || !words.eof() || zero || change.generations.size() > kBlocksMax) {
    return Status::IoError(fmt::format("'{}' is no change of a snapshot", line));
  }
  return change;
}

SnapshotOracle::State SnapshotChange::state() const {
  if (sequence_id == 0) return std::nullopt;
  return SeededManifest(name, kCampaignRecordBytes, sequence_id, generations);
}

Status SnapshotChange::ApplyTo(BlockStore& store) const {
  const auto to = state();
  if (!to) return store.RemoveManifest(name);
  // A store that others write as well may take a new one, and refuse to drop an old one.
  const bool there = store.ReadManifest(name).ok();
  return TakeSnapshot(store, *to, there ? CommitMode::kReplace : CommitMode::kNew);
}

Result<SnapshotStates> ReadCampaignSnapshots(BlockStore& store, std::string_view owner) {
  SnapshotStates states;
  for (const char letter : {'a', 'b', 'c'}) {
    const std::string name = fmt::format("{}{}{}", kCampaignPrefix, owner, letter);
    auto manifest = store.ReadManifest(name);
    if (!manifest.ok() && manifest.status().code() != StatusCode::kNotFound) {
      return manifest.status();
    }
    states[name] = manifest.ok() ? SnapshotOracle::State(std::move(*manifest)) : std::nullopt;
  }
  return states;
}

SnapshotChange NextChange(std::mt19937_64& random, const SnapshotStates& present) {
  auto at = present.begin();
  std::advance(at, random() % present.size());
  SnapshotChange change{.name = at->first};
  const auto& there = at->second;
  const uint64_t way = random() % 3;
  if (there && way == 0) return change;
  const uint64_t blocks = 1 + random() % kBlocksMax;
  uint64_t kept = 0;
  if (there && way == 1) {
    // Grows, or changes its tail.
    change.sequence_id = there->sequence_id;
    change.generations = BlockGenerations(*there);
    kept = random() % (std::min<uint64_t>(blocks, change.generations.size()) + 1);
  } else {
    change.sequence_id = random() | 1;
  }
  uint64_t newest = 0;
  for (uint64_t generation : change.generations) newest = std::max(newest, generation);
  newest = NewGeneration(random, newest);
  change.generations.resize(kept);
  change.generations.resize(blocks, newest);
  return change;
}

Status RemoveCampaignSnapshots(BlockStore& store) {
  KVBED_ASSIGN_OR_RETURN(const auto listed, store.ListManifests());
  for (const ManifestSummary& summary : listed) {
    if (!summary.name.starts_with(kCampaignPrefix)) continue;
    const Status removed = store.RemoveManifest(summary.name);
    if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  }
  return Status::Ok();
}

Status CleanStore(const StoreOpener& opener, const StoreSpec& spec, const StoreSettings& settings) {
  auto store = opener(nullptr, spec, {.access = StoreAccess::kWrite, .defaults = settings});
  if (store.ok()) return RemoveCampaignSnapshots(**store);
  return store.status().code() == StatusCode::kNotFound ? Status::Ok() : store.status();
}

}  // namespace kvbed
