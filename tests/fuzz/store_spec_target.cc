#include "backends/store_spec.h"
#include "offload/manifest.h"
#include "tests/fuzz/fuzz_targets.h"

namespace kvbed {

bool FuzzStoreSpec(Bytes input) {
  const auto spec = ParseStoreSpec(AsText(input));
  if (!spec.ok()) return false;
  KVBED_CHECK(spec->path.find('\0') == std::string::npos);
  KVBED_CHECK(spec->snapshot.empty() || ValidateSnapshotName(spec->snapshot).ok());
  KVBED_CHECK(CheckSettings(spec->kind, EffectiveSettings(*spec, {})).ok());
  const auto again = ParseStoreSpec(spec->ToString());
  KVBED_CHECK(again.ok() && *again == *spec);
  return true;
}

}  // namespace kvbed
