#include "backends/external_manifests.h"

#include <fmt/format.h>

#include <utility>

namespace kvbed {

Result<ExternalManifests> ExternalManifests::Open(Io& io, const ExternalStoreOptions& options,
                                                  bool store_keeps_them, const Digest128& uuid) {
  const std::string& directory = options.manifests_directory;
  if (store_keeps_them) {
    if (directory.empty()) return ExternalManifests(InStore{options.spec});
    return Status::InvalidArgument(
        fmt::format("{}: the store keeps its manifests itself: leave manifests={} out",
                    options.spec, directory));
  }
  if (directory.empty()) return ExternalManifests(InMemory());
  if (options.access == StoreAccess::kCreate) {
    KVBED_RETURN_IF_ERROR(io.MakeDirectories(directory));
  }
  ManifestFolder folder(io, directory, uuid);
  KVBED_RETURN_IF_ERROR(folder.List().status());
  return ExternalManifests(std::move(folder));
}

ExternalStoreState::Manifests ExternalManifests::place() const {
  if (std::holds_alternative<InStore>(place_)) return ExternalStoreState::Manifests::kStore;
  if (std::holds_alternative<InMemory>(place_)) return ExternalStoreState::Manifests::kMemory;
  return ExternalStoreState::Manifests::kFolder;
}

Result<std::vector<std::string>> ExternalManifests::List(ExternalChild& child) const {
  if (const auto* folder = std::get_if<ManifestFolder>(&place_)) return folder->List();
  const auto* memory = std::get_if<InMemory>(&place_);
  if (memory == nullptr) return child.ListManifests();
  std::vector<std::string> names;
  for (const auto& [name, encoded] : *memory) names.push_back(name);
  return names;
}

Result<Manifest> ExternalManifests::Read(ExternalChild& child, const std::string& name) const {
  if (const auto* folder = std::get_if<ManifestFolder>(&place_)) return folder->Read(name);
  if (const auto* memory = std::get_if<InMemory>(&place_)) {
    return DecodeManifest(AsBytes(memory->at(name)));
  }
  const std::string where = fmt::format("{}: {}", std::get<InStore>(place_).where, name);
  KVBED_ASSIGN_OR_RETURN(const std::string encoded, child.ReadManifest(name));
  auto manifest = DecodeManifest(AsBytes(encoded));
  if (!manifest.ok()) return manifest.status().WithContext(where);
  // Which store it is in only the store can know.
  const Digest128 uuid = manifest->store_uuid;
  return CheckManifestIdentity(std::move(*manifest), name, uuid, where);
}

FolderChange ExternalManifests::Publish(ExternalChild& child, const Manifest& manifest,
                                        CommitMode mode) {
  const bool replace = mode == CommitMode::kReplace;
  if (auto* folder = std::get_if<ManifestFolder>(&place_)) {
    return folder->Publish(manifest, replace ? RenameMode::kReplace : RenameMode::kNoReplace);
  }
  std::string encoded = EncodeManifest(manifest);
  if (auto* memory = std::get_if<InMemory>(&place_)) {
    (*memory)[manifest.name] = std::move(encoded);
    return {};
  }
  // An error of a store that goes on says that nothing has changed.
  FolderChange change{.status = child.CommitManifest(manifest.name, encoded, replace)};
  change.settled = child.failure().ok();
  return change;
}

FolderChange ExternalManifests::Remove(ExternalChild& child, const std::string& name) {
  if (auto* folder = std::get_if<ManifestFolder>(&place_)) return folder->Remove(name);
  if (auto* memory = std::get_if<InMemory>(&place_)) {
    memory->erase(name);
    return {};
  }
  FolderChange change{.status = child.RemoveManifest(name)};
  change.settled = child.failure().ok();
  return change;
}

}  // namespace kvbed
