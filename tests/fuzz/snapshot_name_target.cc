#include "offload/manifest.h"
#include "tests/fuzz/fuzz_targets.h"

namespace kvbed {

bool FuzzSnapshotName(Bytes input) {
  const std::string name(AsText(input));
  if (!ValidateSnapshotName(name).ok()) return false;
  // One visible name below the folder, also with a suffix.
  KVBED_CHECK(name.find_first_of(std::string("/\\\0", 3)) == std::string::npos);
  KVBED_CHECK(name.front() != '.' && name.size() <= 128);
  return true;
}

}  // namespace kvbed
