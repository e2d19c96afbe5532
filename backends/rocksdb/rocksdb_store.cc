#include "backends/rocksdb_store.h"

#include <utility>

#include "backends/rocksdb/blob_store.h"
#include "backends/rocksdb/index_store.h"

namespace kvbed {
namespace {

constexpr std::string_view kDatabaseFolderName = "db";

}  // namespace

Result<std::unique_ptr<BlockStore>> OpenRocksDbStore(std::unique_ptr<Io> io,
                                                     const RocksDbStoreOptions& options) {
  const bool write = options.access != StoreAccess::kRead;
  KVBED_ASSIGN_OR_RETURN(
      StoreFolder folder,
      StoreFolder::Open(*io, options.path, {.name = "rocksdb", .contents = kDatabaseFolderName},
                        options.access));
  const StoreSettings& settings = options.settings;
  // Records that RocksDB's own file system moves are never direct; an index's slots are kvbed's.
  const bool may_be_buffered = settings.fs == DbFileSystem::kPosix &&
                               settings.direct == DirectMode::kRequired &&
                               settings.layout != RecordLayout::kIndex;
  KVBED_ASSIGN_OR_RETURN(
      DirectSupport direct,
      FindDirectSupport(*io, folder.path(),
                        may_be_buffered ? DirectMode::kOptional : settings.direct, write));
  KVBED_ASSIGN_OR_RETURN(auto database,
                         Database::Open(*io, {.folder = folder.path(),
                                              .path = folder.contents_path(),
                                              .create = options.access == StoreAccess::kCreate,
                                              .write = write,
                                              .direct = direct.direct,
                                              .settings = options.settings}));
  if (database->layout() == RecordLayout::kIndex) {
    return MakeIndexStore(std::move(io), options, std::move(folder), std::move(direct),
                          std::move(database));
  }
  if (options.settings.fs == DbFileSystem::kPosix) {
    direct.direct = false;
    direct.reason = "fs=posix: RocksDB's own file system, buffered as it comes";
  }
  return MakeBlobStore(std::move(io), options, std::move(folder), std::move(direct),
                       std::move(database));
}

}  // namespace kvbed
