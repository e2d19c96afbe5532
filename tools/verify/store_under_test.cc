#include "tools/verify/store_under_test.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "backends/external_store.h"
#include "tools/verify/case_outcome.h"

namespace kvbed {

Result<StoreUnderTest> LookAtStore(const CampaignOptions& options) {
  KVBED_CHECK(options.store.has_value());
  StoreUnderTest under{.options = options, .skipped = {}, .removes = true, .warnings = {}};
  StoreSpec& spec = *under.options.store;
  KVBED_ASSIGN_OR_RETURN(
      const auto store,
      options.open(nullptr, spec, {.access = StoreAccess::kCreate, .defaults = options.settings}));
  const auto state = StateOfExternalStore(*store);
  if (!state) return under;
  under.warnings = store->info().warnings;
  under.removes = state->capabilities.remove;
  if (state->manifests == ExternalStoreState::Manifests::kMemory) {
    spec.manifests = options.work_folder + "/manifests";
    std::error_code error;
    std::filesystem::create_directories(*spec.manifests, error);
    if (error) return Status::IoError(fmt::format("make {}: {}", *spec.manifests, error.message()));
  }
  if (state->lossy) {
    under.skipped =
        fmt::format("{} is lossy: its bytes needn't be those that were put", state->name);
  }
  return under;
}

void SkipCampaign(CaseLog& log, std::string_view prefix, CaseKind kind, std::string reason) {
  const std::string name = fmt::format("{}all", prefix);
  CaseResult result = log.Start(name, kind);
  SkipCase(result, std::move(reason));
  log.Finish(std::move(result));
}

}  // namespace kvbed
