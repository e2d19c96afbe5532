// The store that a user names, as the campaigns use it: where kvbed keeps its manifests when it
// keeps none, and what can't be asked of it. It runs no campaign.
#pragma once

#include <string>
#include <vector>

#include "offload/status.h"
#include "tools/verify/campaigns.h"

namespace kvbed {

struct StoreUnderTest {
  // With a store whose manifests outlive it: kvbed's work folder has them where it has none.
  CampaignOptions options;
  std::string skipped;                // why its bytes can't be compared; empty when they can
  bool removes = true;  // records, itself
  std::vector<std::string> warnings;  // of the store, where it is external
};

// Opens it, and makes it where it is missing. `options.store` must be set.
Result<StoreUnderTest> LookAtStore(const CampaignOptions& options);

// Writes one skipped case, which stands for all below `prefix`.
void SkipCampaign(CaseLog& log, std::string_view prefix, CaseKind kind, std::string reason);

}  // namespace kvbed
