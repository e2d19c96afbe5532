// One change of a snapshot in a campaign: a new one, one that grows in the place of its older
// state, or its removal, chosen from a seed. It is told as a line of text by the process that makes
// it to the one that keeps the oracle.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "offload/block_store.h"
#include "offload/manifest.h"
#include "offload/status.h"
#include "tools/verify/store_opener.h"
#include "verify/snapshot_oracle.h"

namespace kvbed {

// What campaigns call their snapshots, so that they stay apart from a user's.
inline constexpr std::string_view kCampaignPrefix = "kvbed-verify-";
inline constexpr std::string_view kOtherOwner = "other-";  // of a second process
inline constexpr uint64_t kCampaignRecordBytes = 8192;
// Three names of up to four blocks each, and one of them in two states.
inline constexpr uint64_t kCampaignSlots = 16;

struct SnapshotChange {
  std::string name;
  uint64_t sequence_id = 0;  // 0: it is removed
  std::vector<uint64_t> generations{};

  std::string Line() const;  // "NAME SEQUENCE GENERATION..."
  // An I/O error for any other line: what wrote it is broken.
  static Result<SnapshotChange> Parse(std::string_view line);

  SnapshotOracle::State state() const;
  Status ApplyTo(BlockStore& store) const;
  bool operator==(const SnapshotChange&) const = default;
};

using SnapshotStates = std::map<std::string, SnapshotOracle::State>;

// What the store holds of the names that changes use. `owner` keeps several processes' names apart.
Result<SnapshotStates> ReadCampaignSnapshots(BlockStore& store, std::string_view owner);
SnapshotChange NextChange(std::mt19937_64& random, const SnapshotStates& present);

// Removes every snapshot whose name begins with kCampaignPrefix.
Status RemoveCampaignSnapshots(BlockStore& store);
// In a store that is closed; one that isn't there has none.
Status CleanStore(const StoreOpener& opener, const StoreSpec& spec, const StoreSettings& settings);

}  // namespace kvbed
