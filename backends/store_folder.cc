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
Result<std::string> ForeignEntry(Io& io, const std::string& path, std::string_view contents,
                                 const std::vector<DirectoryEntry>& entries) {
  for (const DirectoryEntry& entry : entries) {
    if (entry.name == kLockFileName || IsTemporaryPath(entry.name)) continue;
    if (entry.name == contents && entry.is_directory) {
      KVBED_ASSIGN_OR_RETURN(const auto inside, io.List(path + "/" + entry.name));
      if (inside.empty()) continue;
    }
    return entry.name;
  }
  return std::string();
}

// What a store's folder has besides its STORE file.
bool LooksLikeAStore(const std::vector<DirectoryEntry>& entries, std::string_view contents) {
  return std::any_of(entries.begin(), entries.end(), [&](const DirectoryEntry& entry) {
    return entry.name == contents && entry.is_directory;
  });
}

// What is there, before anything is touched: ok when Open may go on.
Status CheckPlace(Io& io, const std::string& path, std::string_view contents, StoreAccess access) {
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
  KVBED_ASSIGN_OR_RETURN(const std::string foreign, ForeignEntry(io, path, contents, *entries));
  if (!foreign.empty() && LooksLikeAStore(*entries, contents)) {
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

Status Create(Io& io, const std::string& path, const StoreFolderKind& kind) {
  KVBED_RETURN_IF_ERROR(io.MakeDirectories(path + "/" + std::string(kind.contents)));
  const std::string encoded = EncodeStoreIdentity(NewStoreIdentity(kind.name));
  const Status published = PublishFile(io, path + "/" + std::string(kIdentityFileName),
                                       AsBytes(encoded), RenameMode::kNoReplace);
  // Of many writers another one may have been faster.
  const bool there =
      kind.sharing == Sharing::kManyWriters && published.code() == StatusCode::kInvalidArgument;
  return there ? io.SyncDirectory(path) : published;
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

}  // namespace

// Were a manifest's removal, visible and not yet durable, taken back by a power cut later, its
// slots would have been reused.
Status SweepFolder(Io& io, const std::string& directory) {
  KVBED_ASSIGN_OR_RETURN(const auto entries, io.List(directory));
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_directory || !IsTemporaryPath(entry.name)) continue;
    KVBED_RETURN_IF_ERROR(io.Unlink(directory + "/" + entry.name));
  }
  return io.SyncDirectory(directory);
}

Result<StoreFolder> StoreFolder::Open(Io& io, const std::string& path, const StoreFolderKind& kind,
                                      StoreAccess access) {
  KVBED_RETURN_IF_ERROR(CheckPlace(io, path, kind.contents, access));
  const bool writes = access != StoreAccess::kRead;
  const bool many_writers = kind.sharing == Sharing::kManyWriters;
  StoreFolder folder;
  folder.path_ = path;
  folder.contents_ = kind.contents;
  if (!many_writers) {
    KVBED_ASSIGN_OR_RETURN(
        folder.lock_,
        StoreLock::Acquire(io, path, writes ? LockMode::kExclusive : LockMode::kShared));
  } else if (writes) {
    KVBED_ASSIGN_OR_RETURN(folder.writers_, WriterLock::Share(io, path));
  }
  if (access == StoreAccess::kCreate) {
    // Looked at again now that nobody else can be making it, or that it doesn't matter who does.
    KVBED_ASSIGN_OR_RETURN(const auto entries, io.List(path));
    if (!HasIdentity(entries)) KVBED_RETURN_IF_ERROR(Create(io, path, kind));
  }
  KVBED_ASSIGN_OR_RETURN(folder.identity_, ReadIdentity(io, path, kind.name));
  if (const auto listed = io.List(folder.contents_path());
      !listed.ok() && listed.status().code() == StatusCode::kNotFound) {
    return Status::Corruption(fmt::format(
        "the store in {} has lost its {} folder: put it back from a copy, or name another folder",
        path, kind.contents));
  }
  if (!writes) return folder;
  if (many_writers) {
    // Temporary files may be others', at work.
    KVBED_RETURN_IF_ERROR(io.SyncDirectory(path));
    KVBED_RETURN_IF_ERROR(io.SyncDirectory(folder.contents_path()));
  } else {
    KVBED_RETURN_IF_ERROR(SweepFolder(io, path));
    KVBED_RETURN_IF_ERROR(SweepFolder(io, folder.contents_path()));
  }
  return folder;
}

}  // namespace kvbed
