#include "backends/store_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

bool HasIdentity(const std::vector<DirectoryEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(),
                     [](const DirectoryEntry& entry) { return entry.name == kIdentityFileName; });
}

// The first entry that is not what an interrupted creation leaves; empty when there is none.
Result<std::string> ForeignEntry(Io& io, const std::string& path,
                                 const std::vector<DirectoryEntry>& entries) {
  for (const DirectoryEntry& entry : entries) {
    if (entry.name == kLockFileName || IsTemporaryPath(entry.name)) continue;
    if (entry.name == kManifestsFolderName && entry.is_directory) {
      KVBED_ASSIGN_OR_RETURN(const auto manifests, io.List(path + "/" + entry.name));
      if (manifests.empty()) continue;
    }
    return entry.name;
  }
  return std::string();
}

// What a store's folder has besides its STORE file.
bool LooksLikeAStore(const std::vector<DirectoryEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return entry.name == kManifestsFolderName && entry.is_directory;
  });
}

// What is there, before anything is touched: ok when Open may go on.
Status CheckPlace(Io& io, const std::string& path, StoreAccess access) {
  auto entries = io.List(path);
  if (!entries.ok() && entries.status().code() == StatusCode::kNotFound) {
    if (access != StoreAccess::kCreate) {
      return Status::NotFound(fmt::format("there is no store at {}: no such folder", path));
    }
    return io.MakeDirectories(path);
  }
  if (!entries.ok()) {
    return entries.status().WithContext(fmt::format("the store's folder {} can't be read", path));
  }
  if (HasIdentity(*entries)) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(const std::string foreign, ForeignEntry(io, path, *entries));
  if (!foreign.empty() && LooksLikeAStore(*entries)) {
    return Status::Corruption(
        fmt::format("the store in {} has lost its {} file, while {} is there: put the file back "
                    "from a copy, or name another folder",
                    path, kIdentityFileName, foreign));
  }
  if (!foreign.empty()) {
    return Status::InvalidArgument(fmt::format(
        "{} is not a store and not empty (it has {}): name another folder", path, foreign));
  }
  if (access != StoreAccess::kCreate) {
    return Status::NotFound(fmt::format("there is no store at {}: the folder is empty", path));
  }
  return Status::Ok();
}

Status Create(Io& io, const std::string& path, std::string_view kind) {
  KVBED_RETURN_IF_ERROR(io.MakeDirectories(path + "/" + std::string(kManifestsFolderName)));
  const std::string encoded = EncodeStoreIdentity(NewStoreIdentity(kind));
  return PublishFile(io, path + "/" + std::string(kIdentityFileName), AsBytes(encoded),
                     RenameMode::kNoReplace);
}

Result<StoreIdentity> ReadIdentity(Io& io, const std::string& path, std::string_view kind) {
  const std::string file = path + "/" + std::string(kIdentityFileName);
  KVBED_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(io, file, kPageBytes));
  auto identity = DecodeStoreIdentity(AsBytes(bytes));
  if (!identity.ok()) {
    return Status(identity.status().code(),
                  fmt::format("{}: {}: put it back from a copy, or name another folder", file,
                              identity.status().message()));
  }
  if (identity->kind != kind) {
    return Status::InvalidArgument(
        fmt::format("{0} is a {1} store: write {1}:{0}", path, identity->kind));
  }
  return identity;
}

// A killed writer may have left temporary files, and names that are visible but not yet durable:
// were a manifest's removal taken back by a power cut later, its slots would have been reused.
Status SweepAndSync(Io& io, const std::string& directory) {
  KVBED_ASSIGN_OR_RETURN(const auto entries, io.List(directory));
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_directory || !IsTemporaryPath(entry.name)) continue;
    KVBED_RETURN_IF_ERROR(io.Unlink(directory + "/" + entry.name));
  }
  return io.SyncDirectory(directory);
}

}  // namespace

Result<StoreFolder> StoreFolder::Open(Io& io, const std::string& path, std::string_view kind,
                                      StoreAccess access) {
  KVBED_RETURN_IF_ERROR(CheckPlace(io, path, access));
  const bool writes = access != StoreAccess::kRead;
  StoreFolder folder;
  folder.path_ = path;
  KVBED_ASSIGN_OR_RETURN(
      folder.lock_,
      StoreLock::Acquire(io, path, writes ? LockMode::kExclusive : LockMode::kShared));
  if (access == StoreAccess::kCreate) {
    // Looked at again now that nobody else can be making it.
    KVBED_ASSIGN_OR_RETURN(const auto entries, io.List(path));
    if (!HasIdentity(entries)) KVBED_RETURN_IF_ERROR(Create(io, path, kind));
  }
  KVBED_ASSIGN_OR_RETURN(folder.identity_, ReadIdentity(io, path, kind));
  if (const auto listed = io.List(folder.manifests_path());
      !listed.ok() && listed.status().code() == StatusCode::kNotFound) {
    return Status::Corruption(fmt::format(
        "the store in {} has lost its {} folder: put it back from a copy, or name another folder",
        path, kManifestsFolderName));
  }
  if (writes) {
    KVBED_RETURN_IF_ERROR(SweepAndSync(io, path));
    KVBED_RETURN_IF_ERROR(SweepAndSync(io, folder.manifests_path()));
  }
  return folder;
}

}  // namespace kvbed
