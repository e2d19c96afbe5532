#include <algorithm>

#include "offload/manifest.h"
#include "tests/fuzz/fuzz_targets.h"

namespace kvbed {
namespace {

bool UseManifest(Bytes bytes) {
  const auto manifest = DecodeManifest(bytes);
  if (!manifest.ok()) return false;
  KVBED_CHECK(ValidateManifest(*manifest).ok());
  KVBED_CHECK(ValidateSnapshotName(manifest->name).ok());
  for (uint64_t i = 0; i < manifest->blocks.size(); ++i) (void)manifest->ExpectedHeader(i);
  (void)manifest->pending_token();
  (void)manifest->stored_bytes();
  KVBED_CHECK(EncodeManifest(*manifest) == AsText(bytes));
  return true;
}

}  // namespace

bool FuzzManifest(Bytes input) {
  const bool accepted = UseManifest(input);
  if (input.size() > sizeof(Digest128)) {
    std::string mended(AsText(input));
    const size_t body = mended.size() - sizeof(Digest128);
    const Digest128 checksum = Xxh3_128(AsBytes(mended).first(body));
    mended.replace(body, sizeof(Digest128), AsText(checksum.bytes));
    UseManifest(AsBytes(mended));
  }
  return accepted;
}

}  // namespace kvbed
