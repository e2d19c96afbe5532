#include "backends/manifest_folder.h"

#include <fmt/format.h>

#include <utility>

namespace kvbed {
Result<Manifest> CheckManifestIdentity(Manifest manifest, const std::string& name,
                                       const Digest128& uuid, const std::string& where) {
  if (manifest.name != name) {
    return Status::Corruption(
        fmt::format("{}: it is the manifest of a snapshot named {}", where, manifest.name));
  }
  if (manifest.store_uuid != uuid) {
    return Status::Corruption(fmt::format("{}: it belongs to the store {}, and this one is {}",
                                          where, manifest.store_uuid.ToHex(), uuid.ToHex()));
  }
  return manifest;
}

std::string ManifestFolder::PathOf(const std::string& name) const {
  return fmt::format("{}/{}{}", directory_, name, kManifestSuffix);
}

Result<std::vector<std::string>> ManifestFolder::List() const {
  KVBED_ASSIGN_OR_RETURN(const auto entries, io_->List(directory_));
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) {
    // A folder of that name too: reading it fails, and nothing counts as unnamed while it is there.
    if (!entry.name.ends_with(kManifestSuffix)) continue;
    names.push_back(entry.name.substr(0, entry.name.size() - kManifestSuffix.size()));
  }
  return names;
}

Result<Manifest> ManifestFolder::Read(const std::string& name) const {
  const std::string path = PathOf(name);
  auto bytes = ReadFile(*io_, path, kManifestBytesMax);
  if (!bytes.ok()) {
    if (bytes.status().code() != StatusCode::kNotFound) return bytes.status();
    return Status::NotFound(fmt::format("there is no snapshot {} ({})", name, path));
  }
  auto manifest = DecodeManifest(AsBytes(*bytes));
  if (!manifest.ok()) return manifest.status().WithContext(path);
  return CheckManifestIdentity(std::move(*manifest), name, uuid_, path);
}

FolderChange ManifestFolder::Publish(const Manifest& manifest, RenameMode mode) {
  const std::string path = PathOf(manifest.name);
  const std::string encoded = EncodeManifest(manifest);
  FolderChange change;
  change.status = PublishFile(*io_, path, AsBytes(encoded), mode);
  if (change.status.ok()) return change;
  // The rename came last but for the folder's fsync, so what is there now tells.
  const auto there = ReadFile(*io_, path, kManifestBytesMax);
  change.settled = there.ok() ? *there != encoded : there.status().code() == StatusCode::kNotFound;
  return change;
}

FolderChange ManifestFolder::Remove(const std::string& name) {
  FolderChange change;
  change.status = io_->Unlink(PathOf(name));
  if (!change.status.ok() && change.status.code() != StatusCode::kNotFound) return change;
  change.status = io_->SyncDirectory(directory_);
  change.settled = change.status.ok();
  return change;
}

}  // namespace kvbed
