#include "backends/rocksdb/index_store.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "backends/rocksdb/catalog.h"
#include "backends/rocksdb/database_files.h"
#include "backends/rocksdb/place_writer.h"
#include "backends/rocksdb/rocksdb_status.h"
#include "backends/slab_store_with.h"

namespace kvbed {
namespace {

// Manifests are keys of RocksDB, and so is where each record lies; a get asks it.
class DatabaseKeeper {
 public:
  DatabaseKeeper(std::unique_ptr<Database> database, const Digest128& uuid)
      : database_(std::move(database)), catalog_(*database_, uuid), places_(*database_) {}

  Result<std::vector<std::string>> Names() { return catalog_.Names(); }
  Result<Manifest> Read(const std::string& name) { return catalog_.Read(name); }
  FolderChange Publish(const Manifest& manifest, CommitMode) { return catalog_.Publish(manifest); }
  FolderChange Remove(const std::string& name) { return catalog_.Remove(name); }

  Status KeepOnly(const RecordIndex& index) {
    KVBED_ASSIGN_OR_RETURN(const std::vector<RecordId> ids, catalog_.Ids());
    std::vector<FreedRecord> orphans;
    for (const RecordId& id : ids) {
      if (index.Find(id) == nullptr) orphans.push_back({id, 0, 0});
    }
    places_.NoteFreed(orphans);
    KVBED_RETURN_IF_ERROR(places_.Wait());
    database_->KeepRoom();
    return Status::Ok();
  }

  Status Ready() {
    KVBED_RETURN_IF_ERROR(database_->BackgroundError());
    return places_.failure();
  }
  void NotePut(const RecordId& id, const IndexEntry& entry) {
    places_.NotePut(id, {entry.digest, entry.record_bytes, entry.place});
  }
  void NoteFreed(const std::vector<FreedRecord>& freed) { places_.NoteFreed(freed); }
  Status MakePutsDurable() {
    KVBED_RETURN_IF_ERROR(places_.Wait());
    return database_->MakeDurable({DbFamily::kIds});
  }

  std::vector<Result<uint64_t>> FindPlaces(std::span<StoreRequest* const> requests) {
    std::vector<std::string> keys;
    for (const StoreRequest* request : requests) {
      if (request->op == StoreRequest::Op::kGet) keys.push_back(KeyOf(request->id));
    }
    if (keys.empty()) return {};
    // What was put a moment ago may still be on its way.
    const Status written = places_.Wait();
    const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
    std::vector<rocksdb::PinnableSlice> values;
    const std::vector<rocksdb::Status> statuses =
        database_->MultiGet(DbFamily::kIds, slices, values);
    std::vector<Result<uint64_t>> places;
    size_t next = 0;
    for (const StoreRequest* request : requests) {
      if (request->op != StoreRequest::Op::kGet) {
        places.emplace_back(uint64_t{0});
        continue;
      }
      const size_t at = next++;
      places.push_back(written.ok() ? PlaceIn(*request, statuses[at], values[at])
                                    : Result<uint64_t>(written));
    }
    return places;
  }

  // An id that is left over says nothing that the slot, which is free, doesn't.
  Status ListLeftovers(Io& io, const StoreFolder& folder, Leftovers& leftovers) {
    return ListFolderLeftovers(io, folder.contents_path(), IsDatabaseEntry, leftovers);
  }

  void Describe(StoreInfo& info) {
    info.kind = "rocksdb";
    info.design = info.direct ? "slots of preallocated files, direct I/O; RocksDB is the index only"
                              : "slots of preallocated files, through the page cache; RocksDB is "
                                "the index only";
    info.durability =
        database_->wal()
            ? "fdatasync of the slots, then the log with their places synced; the manifest in it, "
              "synced"
            : "fdatasync of the slots, then memtables with their places written to files and "
              "synced; the manifest's too";
    info.details = database_->Details();
    info.warnings = database_->Warnings();
  }

 private:
  static Result<uint64_t> PlaceIn(const StoreRequest& request, const rocksdb::Status& status,
                                  const rocksdb::Slice& value) {
    if (status.IsNotFound()) {
      return Status::NotFound(
          fmt::format("RocksDB has no place for the record of {}", request.id.ToString()));
    }
    KVBED_RETURN_IF_ERROR(
        FromRocksDb(status, fmt::format("looking for the record of {}", request.id.ToString())));
    KVBED_ASSIGN_OR_RETURN(const IdEntry entry, DecodeIdEntry({value.data(), value.size()}));
    return entry.place;
  }

  const std::unique_ptr<Database> database_;
  Catalog catalog_;
  PlaceWriter places_;
};

}  // namespace

Result<std::unique_ptr<BlockStore>> MakeIndexStore(std::unique_ptr<Io> io,
                                                   const RocksDbStoreOptions& options,
                                                   StoreFolder folder, DirectSupport direct,
                                                   std::unique_ptr<Database> database) {
  auto keeper = std::make_unique<DatabaseKeeper>(std::move(database), folder.uuid());
  auto store = std::make_unique<SlabStoreWith<DatabaseKeeper>>(
      std::move(io),
      SlabStoreOptions{.path = options.path,
                       .access = options.access,
                       .settings = options.settings,
                       .record_bytes_hint = options.record_bytes_hint,
                       .spec = options.spec},
      std::move(folder), std::move(direct), std::move(keeper));
  KVBED_RETURN_IF_ERROR(store->Load());
  return std::unique_ptr<BlockStore>(std::move(store));
}

}  // namespace kvbed
