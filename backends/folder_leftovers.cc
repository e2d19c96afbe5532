#include "backends/folder_leftovers.h"

#include <vector>

#include "backends/disk_reserve.h"
#include "backends/disk_space.h"
#include "backends/manifest_folder.h"

namespace kvbed {
namespace {

bool IsOfEveryStore(const StoreFolder& folder, const DirectoryEntry& entry) {
  if (entry.is_directory) return entry.name == folder.contents_name();
  return entry.name == kIdentityFileName || entry.name == kLockFileName ||
         entry.name == kReserveFileName || entry.name == kRemoverLockFileName;
}

}  // namespace

Leftover FolderLeftover(const std::string& directory, const DirectoryEntry& entry) {
  const bool temporary = !entry.is_directory && IsTemporaryPath(entry.name);
  const std::string path = directory + "/" + entry.name;
  return {.kind = temporary ? LeftoverKind::kTemporary : LeftoverKind::kUnknown,
          .path = path,
          .size_bytes = entry.is_directory ? AllocatedBytes(path) : entry.size_bytes,
          .id = std::nullopt};
}

Status ListFolderLeftovers(Io& io, const std::string& directory, KnownEntry known,
                           Leftovers& leftovers) {
  KVBED_ASSIGN_OR_RETURN(const auto entries, io.List(directory));
  for (const DirectoryEntry& entry : entries) {
    if (!known(entry)) leftovers.Add(FolderLeftover(directory, entry));
  }
  return Status::Ok();
}

Status ListStoreFolderLeftovers(Io& io, const StoreFolder& folder, KnownEntry known,
                                Leftovers& leftovers) {
  KVBED_ASSIGN_OR_RETURN(const auto entries, io.List(folder.path()));
  for (const DirectoryEntry& entry : entries) {
    if (IsOfEveryStore(folder, entry) || known(entry)) continue;
    leftovers.Add(FolderLeftover(folder.path(), entry));
  }
  return Status::Ok();
}

bool IsManifestEntry(const DirectoryEntry& entry) {
  return !entry.is_directory && entry.name.ends_with(kManifestSuffix);
}

}  // namespace kvbed
