// The campaigns of `kvbed verify`, each a set of cases that it runs and writes to a log. An error
// is one of this machine (no room, no permission), never a verdict.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/store_spec.h"
#include "offload/status.h"
#include "tools/verify/case_log.h"
#include "tools/verify/store_opener.h"

namespace kvbed {

enum class VerifyProfile : uint8_t { kCi, kFull };

struct CampaignOptions {
  VerifyProfile profile = VerifyProfile::kCi;
  bool brief = false;  // of the self-test only what shows that faults are seen: before a store's
  std::string
      work_folder;  // for the self-test's stores and kvbed's own notes; removed by the caller
  std::optional<std::string> model;          // -m; none: toys, or seeded records without libtorch
  std::optional<StoreSpec> store;            // the store under test
  StoreSettings settings;                    // for it
  std::optional<double> fail_above;          // --fail-above: the largest |d| of a lossy store
  std::optional<std::string> damage_folder;  // --damage-dir: where it keeps its files
  StoreOpener open = OpenAsItIs;
  // What is run as a second process, with "--store SPEC" added: this command itself.
  std::vector<std::string> child_command = {"/proc/self/exe", "verify-child"};
};

// ---- the self-test: kvbed's own stores and decorators
Status RunRoundTrips(const CampaignOptions& options, CaseLog& log);    // the matrix
Status RunSeamFaults(const CampaignOptions& options, CaseLog& log);    // below slab, files, RocksDB
Status RunRecordFaults(const CampaignOptions& options, CaseLog& log);  // decorator, over all stores
Status RunFileFaults(const CampaignOptions& options, CaseLog& log);  // files and manifests by hand
Status RunControls(const CampaignOptions& options, CaseLog& log);    // canaries, blinded checks
Status RunCrashes(const CampaignOptions& options, CaseLog& log);     // kill and power cut
Status RunRaces(const CampaignOptions& options, CaseLog& log);

// ---- the store under test: only what anyone's store can be asked; names begin with "store/"
Status RunStoreRoundTrips(const CampaignOptions& options, CaseLog& log);
Status RunStoreVerbs(const CampaignOptions& options, CaseLog& log);    // each verb by itself
Status RunStoreDamage(const CampaignOptions& options, CaseLog& log);   // --damage-dir
Status RunStoreCrashes(const CampaignOptions& options, CaseLog& log);  // SIGKILL and restart
Status RunStoreRaces(const CampaignOptions& options, CaseLog& log);
Status RunStoreLimits(const CampaignOptions& options, CaseLog& log);  // size limit, full filesystem

}  // namespace kvbed
