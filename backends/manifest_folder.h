// The folder of a store's manifests, one file NAME.manifest for each snapshot.
// It doesn't know where records are kept. Any number of threads may read; changes are the caller's
// to serialise.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/io.h"
#include "offload/manifest.h"
#include "offload/status.h"

namespace kvbed {

inline constexpr std::string_view kManifestSuffix = ".manifest";

// How a change of the folder ended.
struct FolderChange {
  Status status;  // ok: done and durable
  // False when the change may or may not be there after a power cut: then what the old state and
  // what the new state name must both be kept.
  bool settled = true;
};

// The manifest again when it is the one of snapshot `name` in the store `uuid`; else corruption,
// and `where` says where it was found.
Result<Manifest> CheckManifestIdentity(Manifest manifest, const std::string& name,
                                       const Digest128& uuid, const std::string& where);

class ManifestFolder {
 public:
  // `io` must outlive it. `uuid` is the store's, which its manifests carry.
  ManifestFolder(Io& io, std::string directory, const Digest128& uuid)
      : io_(&io), directory_(std::move(directory)), uuid_(uuid) {}

  // Names of the files that are manifests by their name, without the ending; sorted.
  Result<std::vector<std::string>> List() const;
  // Not found when there is none; corruption or not supported when it can't be decoded, is another
  // snapshot's, or belongs to another store. Messages name the file.
  Result<Manifest> Read(const std::string& name) const;
  // Out of space leaves the folder as it was.
  FolderChange Publish(const Manifest& manifest, RenameMode mode);
  // A manifest that is gone already counts as removed.
  FolderChange Remove(const std::string& name);

  std::string PathOf(const std::string& name) const;

 private:
  Io* io_;
  std::string directory_;
  Digest128 uuid_;
};

}  // namespace kvbed
