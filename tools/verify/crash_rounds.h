// Rounds of a crash and what is left: a store is changed, its process is killed or the power goes,
// and the oracle looks at what the next one that opens it finds. Each round goes on with the store
// of the one before. It doesn't know cases' names.
#pragma once

#include <cstdint>
#include <optional>

#include "offload/fault_plan.h"
#include "offload/status.h"
#include "tools/verify/campaigns.h"
#include "verify/case_result.h"

namespace kvbed {

struct CrashRounds {
  StoreSpec spec;
  uint64_t rounds = 30;
  uint64_t operations =
      200;  // that a few changes take, about: where "any operation" is chosen from
  // The store is made for this case, and has room for kCampaignSlots records.
  struct Own {
    bool to_the_byte = true;  // and for none more
  };
  std::optional<Own> own;
};

// A child changes snapshots until it is killed: in turn right before a seeded write, sync, rename,
// unlink and any operation of the store's files, and at any moment. A round is an injected fault,
// repaired when everything committed is whole, what wasn't is absent, and space is free again.
// An error: this machine couldn't play it.
Status RunKillRounds(const CampaignOptions& options, const CrashRounds& rounds, CaseResult& result);

// The process of a store outside kvbed is killed at seeded moments while kvbed changes snapshots in
// it, and started again.
Status RunExternalKillRounds(const CampaignOptions& options, const CrashRounds& rounds,
                             CaseResult& result);

// The power goes at a seeded operation: unsynced data and names are lost (kLostWrites), or a seeded
// subset of them is there and writes are torn at a sector (kReorderedWrites).
Status RunPowerCutRounds(const CampaignOptions& options, const CrashRounds& rounds, FaultKind how,
                         CaseResult& result);

}  // namespace kvbed
