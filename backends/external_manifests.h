// Where an external store's manifests are: in the store, which can keep them; else in a folder, or
// in memory. It doesn't know records. Not thread-safe; its owner locks.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "backends/external_child.h"
#include "backends/external_store.h"
#include "backends/io.h"
#include "backends/manifest_folder.h"
#include "offload/block_store.h"
#include "offload/manifest.h"
#include "offload/status.h"

namespace kvbed {

class ExternalManifests {
 public:
  // In the store when it can, in `directory` when that is named (it is made when missing and the
  // access is kCreate), else in memory. `io` must outlive it.
  static Result<ExternalManifests> Open(Io& io, const ExternalStoreOptions& options,
                                        bool store_keeps_them, const Digest128& uuid);

  ExternalStoreState::Manifests place() const;
  // `child` is the store's, for those that it keeps.
  Result<std::vector<std::string>> List(ExternalChild& child) const;
  Result<Manifest> Read(ExternalChild& child, const std::string& name) const;
  FolderChange Publish(ExternalChild& child, const Manifest& manifest, CommitMode mode);
  FolderChange Remove(ExternalChild& child, const std::string& name);

 private:
  struct InStore {
    std::string where;  // for messages
  };
  using InMemory = std::map<std::string, std::string>;  // encoded, by name
  using Place = std::variant<InStore, ManifestFolder, InMemory>;

  explicit ExternalManifests(Place place) : place_(std::move(place)) {}

  Place place_;
};

}  // namespace kvbed
