#include <vector>

#include "backends/store_identity.h"
#include "tests/fuzz/fuzz_targets.h"

namespace kvbed {
namespace {

bool UseIdentity(Bytes bytes) {
  const auto identity = DecodeStoreIdentity(bytes);
  if (!identity.ok()) return false;
  KVBED_CHECK(EncodeStoreIdentity(*identity) == AsText(bytes));
  return true;
}

}  // namespace

bool FuzzStoreIdentity(Bytes input) {
  constexpr size_t kChecksumAt = 48;
  const bool accepted = UseIdentity(input);
  if (input.size() >= kChecksumAt + sizeof(uint64_t)) {
    std::vector<std::byte> mended(input.begin(), input.end());
    StoreLe(mended, kChecksumAt, Xxh3_64(input.first(kChecksumAt)));
    UseIdentity(mended);
  }
  return accepted;
}

}  // namespace kvbed
