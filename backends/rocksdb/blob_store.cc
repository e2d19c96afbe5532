#include "backends/rocksdb/blob_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "backends/channel_table.h"
#include "backends/commit_guard.h"
#include "backends/disk_space.h"
#include "backends/folder_leftovers.h"
#include "backends/queue_report.h"
#include "backends/record_index.h"
#include "backends/request_workers.h"
#include "backends/rocksdb/blob_locator.h"
#include "backends/rocksdb/catalog.h"
#include "backends/rocksdb/database_files.h"
#include "backends/rocksdb/rocksdb_status.h"
#include "backends/snapshot_list.h"
#include "backends/store_errors.h"
#include "offload/aligned_buffer.h"
#include "offload/clock.h"

namespace kvbed {
namespace {

// RocksDB copies and checks what a MultiGet brought before it returns; other threads' reads keep
// the device busy meanwhile (measured, records of 364 KiB: two threads 0.63 to 0.89, four 1.34
// to 1.66, eight 1.61 GB/s).
constexpr uint32_t kReaderThreads = 4;
// RocksDB's own limit of keys in a batch (MultiGetContext::MAX_BATCH_SIZE).
constexpr uint32_t kMultiGetMax = 32;

struct BlobChannel {
  std::unique_ptr<RequestWorkers> readers;
  std::vector<StoreRequest*> finished;
  std::vector<StoreRequest*> gets;
  rocksdb::WriteBatch batch;  // keeps its memory from put to put
};

class BlobStore final : public BlockStore {
 public:
  BlobStore(std::unique_ptr<Io> io, const RocksDbStoreOptions& options, StoreFolder folder,
            DirectSupport direct, std::unique_ptr<Database> database)
      : io_(std::move(io)),
        options_(options),
        folder_(std::move(folder)),
        direct_(std::move(direct)),
        database_(std::move(database)),
        catalog_(*database_, folder_.uuid()),
        guard_(folder_.path()) {}
  ~BlobStore() override;

  Status Load();

 protected:
  Result<uint32_t> DoOpenChannel(const ChannelOptions& options) override;
  void DoCloseChannel(uint32_t channel) override;
  void DoSubmit(uint32_t channel, std::span<StoreRequest* const> requests) override;
  Status DoReap(uint32_t channel, size_t min_complete,
                std::vector<StoreRequest*>& completed) override;
  Status DoFlush() override;
  Status DoCommit(Manifest& manifest, CommitMode mode) override;
  void DoDiscard(std::span<const RecordId> ids) override;
  Result<Manifest> DoReadManifest(const std::string& name) override;
  Result<std::vector<ManifestSummary>> DoListManifests() override;
  Status DoRemoveManifest(const std::string& name) override;
  Result<std::vector<StoredRecord>> DoListRecords() override;
  Result<Leftovers> DoListLeftovers(RecordNamer namer) override;
  Result<RecordLocation> DoLocate(const RecordId& id, uint64_t place) override;
  StoreInfo DoInfo() const override;

 private:
  using Lock = std::lock_guard<std::mutex>;

  bool writes() const { return options_.access != StoreAccess::kRead; }
  Status CheckWritable() const;
  Status RemoveOrphans();

  Status Put(BlobChannel& channel, StoreRequest& request);
  Status WriteRecord(BlobChannel& channel, const StoreRequest& request);
  Status CheckGet(const StoreRequest& request);
  void Get(std::span<StoreRequest* const> requests);
  Status TakeValue(StoreRequest& request, const rocksdb::Status& status,
                   const rocksdb::Slice& value);
  void BringToFiles();
  void NoteFlushed();

  // With change_mutex_ held.
  Status DeleteRecords(const std::vector<RecordId>& ids);
  Status CollectGarbage();

  uint64_t PendingBytes() const;
  uint64_t UsedBytes() const;
  uint64_t RoomBytes() const;
  Status CheckRoom(uint64_t record_bytes);

  const std::unique_ptr<Io> io_;
  const RocksDbStoreOptions options_;
  const StoreFolder folder_;
  const DirectSupport direct_;
  const std::unique_ptr<Database> database_;

  std::mutex bring_mutex_;   // taken before mutex_
  std::mutex flush_mutex_;   // one flush at a time, so that no success hides another's failure
  std::mutex change_mutex_;  // one change of what is stored at a time; taken before mutex_
  mutable std::mutex mutex_;

  Catalog catalog_;            // changed with change_mutex_ held
  std::string garbage_first_;  // keys between which something was removed and not collected;
  std::string garbage_last_;   // guarded by change_mutex_

  // All below are guarded by mutex_.
  RecordIndex index_;
  SnapshotList snapshots_;
  ChannelTable<BlobChannel> channels_;
  std::set<RecordId> putting_;
  std::condition_variable put_ended_;
  bool in_files_ = false;         // nothing was put since memtables were last written
  uint64_t unflushed_bytes_ = 0;  // put since a flush was asked for
  CommitGuard guard_;
};

BlobStore::~BlobStore() {
  // With a log memtables may hold what is committed. Readers are to find it in files.
  if (writes() && database_->wal()) database_->FlushAll(true).IgnoreError();
}

Status BlobStore::Load() {
  KVBED_ASSIGN_OR_RETURN(const std::vector<std::string> names, catalog_.Names());
  snapshots_.Load(
      names, [this](const std::string& name) { return catalog_.Read(name); },
      [this](const Manifest& manifest) { return index_.AddManifest(manifest); });
  if (!writes()) return Status::Ok();
  KVBED_RETURN_IF_ERROR(RemoveOrphans());
  database_->KeepRoom();
  return Status::Ok();
}

// What a killed writer put and didn't commit.
Status BlobStore::RemoveOrphans() {
  if (snapshots_.HasUnreadable()) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(const std::vector<RecordId> ids, catalog_.Ids());
  std::vector<RecordId> orphans;
  for (const RecordId& id : ids) {
    if (index_.Find(id) == nullptr) orphans.push_back(id);
  }
  if (orphans.empty()) return Status::Ok();
  const Lock one_change(change_mutex_);
  KVBED_RETURN_IF_ERROR(DeleteRecords(orphans));
  return CollectGarbage();
}

Status BlobStore::CheckWritable() const {
  if (!writes()) {
    return OpenedForReading(folder_.path());
  }
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(guard_.status());
  }
  return database_->BackgroundError();
}

Result<uint32_t> BlobStore::DoOpenChannel(const ChannelOptions& options) {
  auto channel = std::make_unique<BlobChannel>();
  const uint32_t batch = std::clamp(options.iodepth / kReaderThreads, 1u, kMultiGetMax);
  channel->readers = std::make_unique<RequestWorkers>(
      std::min(kReaderThreads, options.iodepth), batch,
      [this](std::span<StoreRequest* const> requests) { Get(requests); });
  const Lock lock(mutex_);
  return channels_.Add(std::move(channel));
}

void BlobStore::DoCloseChannel(uint32_t handle) {
  std::unique_ptr<BlobChannel> channel;
  const Lock lock(mutex_);
  channel = channels_.Remove(handle);
}

void BlobStore::DoSubmit(uint32_t handle, std::span<StoreRequest* const> requests) {
  BlobChannel* channel = nullptr;
  {
    const Lock lock(mutex_);
    channel = channels_.at(handle);
  }
  for (StoreRequest* request : requests) {
    const bool put = request->op == StoreRequest::Op::kPut;
    request->status = put ? Put(*channel, *request) : CheckGet(*request);
    if (put || !request->status.ok()) {
      request->completed_ns = MonotonicNs();
      channel->finished.push_back(request);
    } else {
      channel->gets.push_back(request);
    }
  }
  if (channel->gets.empty()) return;
  channel->readers->Add(channel->gets);
  channel->gets.clear();
}

Status BlobStore::Put(BlobChannel& channel, StoreRequest& request) {
  KVBED_RETURN_IF_ERROR(CheckWritable());
  {
    std::unique_lock lock(mutex_);
    // Another channel may be putting the same id.
    put_ended_.wait(lock, [&] { return !putting_.contains(request.id); });
    if (const auto settled = index_.Settle(request)) return *settled;
    putting_.insert(request.id);
  }
  Status status = CheckRoom(request.record.size());
  if (status.ok()) status = WriteRecord(channel, request);
  {
    const Lock lock(mutex_);
    putting_.erase(request.id);
    if (status.ok()) {
      request.place = 0;
      index_.Insert(request.id, 0, request.digest, request.record.size());
      in_files_ = false;
      unflushed_bytes_ += request.record.size();
    }
  }
  put_ended_.notify_all();
  return status;
}

Status BlobStore::WriteRecord(BlobChannel& channel, const StoreRequest& request) {
  const std::string key = KeyOf(request.id);
  channel.batch.Clear();
  channel.batch.Put(database_->family(DbFamily::kRecords), key,
                    {reinterpret_cast<const char*>(request.record.data()), request.record.size()});
  channel.batch.Put(database_->family(DbFamily::kIds), key,
                    EncodeIdEntry({request.digest, request.record.size(), 0}));
  return database_->Write(channel.batch, false);
}

Status BlobStore::CheckGet(const StoreRequest& request) {
  const Lock lock(mutex_);
  return index_.FindFor(request).status();
}

// A record that is still in a memtable would be read from memory, and be taken for the disk's.
// After a failed flush it is all the same; nothing new is committed then.
void BlobStore::BringToFiles() {
  if (!writes()) return;
  const Lock one_at_a_time(bring_mutex_);  // the others wait for what one writes
  {
    const Lock lock(mutex_);
    if (in_files_) return;
    in_files_ = true;  // what is put from here on says otherwise
  }
  if (database_->HasUnflushed() && database_->FlushAll(true).ok()) NoteFlushed();
}

void BlobStore::NoteFlushed() {
  const Lock lock(mutex_);
  unflushed_bytes_ = 0;
}

// On a reader's thread.
void BlobStore::Get(std::span<StoreRequest* const> requests) {
  BringToFiles();
  std::vector<std::string> keys;
  for (const StoreRequest* request : requests) keys.push_back(KeyOf(request->id));
  const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> values;
  const std::vector<rocksdb::Status> statuses =
      database_->MultiGet(DbFamily::kRecords, slices, values);
  for (size_t i = 0; i < requests.size(); ++i) {
    StoreRequest& request = *requests[i];
    request.status = TakeValue(request, statuses[i], values[i]);
    request.completed_ns = MonotonicNs();
    values[i].Reset();
  }
}

Status BlobStore::TakeValue(StoreRequest& request, const rocksdb::Status& status,
                            const rocksdb::Slice& value) {
  if (status.IsNotFound()) {
    const Lock lock(mutex_);
    if (index_.Find(request.id) == nullptr) return index_.Missing(request.id);
    return Status::NotFound(
        fmt::format("RocksDB has no value for the record of {}", request.id.ToString()));
  }
  if (!status.ok()) {
    const Status failed =
        FromRocksDb(status, fmt::format("reading the record of {}", request.id.ToString()));
    return status.IsPathNotFound() ? Status::NotFound(failed.message()) : failed;
  }
  if (value.size() != request.record.size()) {
    if (value.size() < request.record.size()) request.short_bytes = value.size();
    return Status::Corruption(fmt::format("RocksDB's value for the record of {} has {} of {} bytes",
                                          request.id.ToString(), value.size(),
                                          request.record.size()));
  }
  std::memcpy(request.record.data(), value.data(), value.size());
  return Status::Ok();
}

Status BlobStore::DoReap(uint32_t handle, size_t min_complete,
                         std::vector<StoreRequest*>& completed) {
  BlobChannel* channel = nullptr;
  {
    const Lock lock(mutex_);
    channel = channels_.at(handle);
  }
  const size_t done = channel->finished.size();
  completed.insert(completed.end(), channel->finished.begin(), channel->finished.end());
  channel->finished.clear();
  channel->readers->Take(min_complete - std::min(min_complete, done), completed);
  return Status::Ok();
}

Status BlobStore::DoFlush() {
  const Lock one_flush(flush_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  std::vector<UnflushedRecord> records;
  {
    const Lock lock(mutex_);
    records = index_.TakeUnflushed();
  }
  const Status status = database_->MakeDurable({DbFamily::kIds, DbFamily::kRecords});
  const Lock lock(mutex_);
  if (status.ok()) {
    index_.MarkDurable(records);
    if (!database_->wal()) unflushed_bytes_ = 0;
  } else {
    guard_.NoteSync(status);
  }
  return status;
}

Status BlobStore::DoCommit(Manifest& manifest, CommitMode mode) {
  const Lock one_change(change_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckName(manifest.name, mode));
    KVBED_RETURN_IF_ERROR(index_.Reference(manifest));
  }
  manifest.store_uuid = folder_.uuid();
  const FolderChange change = catalog_.Publish(manifest);
  std::vector<FreedRecord> freed;
  {
    const Lock lock(mutex_);
    if (!change.status.ok()) {
      if (change.settled) index_.Unreference(manifest);
      guard_.NoteChange(change);
      return change.status;
    }
    index_.Release(snapshots_.Put(manifest), freed);
  }
  // The snapshot is published whatever becomes of what it replaced.
  DeleteRecords(IdsOf(freed)).IgnoreError();
  if (database_->wal()) {
    // So that restores find files soon; nothing waits for it.
    database_->FlushAll(false).IgnoreError();
  } else if (!freed.empty()) {
    // A deletion that is in no file is gone when the store is closed.
    database_->FlushAll(true).IgnoreError();
  }
  return Status::Ok();
}

Status BlobStore::DoRemoveManifest(const std::string& name) {
  const Lock one_change(change_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckRemovable(name));
  }
  const FolderChange change = catalog_.Remove(name);
  std::vector<FreedRecord> freed;
  {
    const Lock lock(mutex_);
    if (!change.status.ok()) {
      if (!change.settled) guard_.NoteChange(change);
      return change.status;
    }
    index_.Release(snapshots_.Remove(name), freed);
  }
  Status collected = DeleteRecords(IdsOf(freed));
  if (collected.ok()) collected = CollectGarbage();
  database_->KeepRoom();
  return collected.WithContext(
      fmt::format("snapshot {} is removed, its space didn't come back", name));
}

void BlobStore::DoDiscard(std::span<const RecordId> ids) {
  if (ids.empty() || !writes()) return;
  const Lock one_change(change_mutex_);
  std::vector<FreedRecord> freed;
  {
    const Lock lock(mutex_);
    index_.Discard(ids, freed);
  }
  DeleteRecords(IdsOf(freed)).IgnoreError();
}

// Where an unreadable manifest may name them, records stay until it is gone and the store is opened
// again. After a failure too: then they are orphans, and go at the next opening.
Status BlobStore::DeleteRecords(const std::vector<RecordId>& ids) {
  if (ids.empty()) return Status::Ok();
  {
    const Lock lock(mutex_);
    if (snapshots_.HasUnreadable()) return Status::Ok();
  }
  rocksdb::WriteBatch batch;
  for (const RecordId& id : ids) {
    const std::string key = KeyOf(id);
    batch.Delete(database_->family(DbFamily::kRecords), key);
    batch.Delete(database_->family(DbFamily::kIds), key);
    if (garbage_last_.empty() || key < garbage_first_) garbage_first_ = key;
    if (garbage_last_.empty() || key > garbage_last_) garbage_last_ = key;
  }
  return database_->Write(batch, false);
}

Status BlobStore::CollectGarbage() {
  if (garbage_last_.empty()) return Status::Ok();
  KVBED_RETURN_IF_ERROR(database_->CollectGarbage(garbage_first_, garbage_last_));
  garbage_first_.clear();
  garbage_last_.clear();
  NoteFlushed();
  return Status::Ok();
}

// What is on its way to RocksDB's files. A memtable takes memory ahead, and some of what was put
// may have been written meanwhile.
uint64_t BlobStore::PendingBytes() const {
  const uint64_t memtable_bytes = database_->MemtableBytes();
  const Lock lock(mutex_);
  return std::min(unflushed_bytes_, memtable_bytes);
}

// Garbage included.
uint64_t BlobStore::UsedBytes() const { return database_->FileBytes() + PendingBytes(); }

// What isn't in files yet will take room too; with a log each record is there twice for a while.
uint64_t BlobStore::RoomBytes() const {
  const auto available = AvailableBytes(folder_.path());
  const uint64_t available_bytes = available.ok() ? *available : 0;
  const uint64_t capacity_bytes = options_.settings.capacity_bytes;
  const uint64_t kept = PendingBytes() + (capacity_bytes == 0 ? ReserveBytes(folder_.path()) : 0);
  uint64_t room = available_bytes - std::min(available_bytes, kept);
  if (database_->wal()) room /= 2;
  if (capacity_bytes == 0) return room;
  return std::min(room, capacity_bytes - std::min(capacity_bytes, UsedBytes()));
}

Status BlobStore::CheckRoom(uint64_t record_bytes) {
  if (record_bytes <= RoomBytes()) return Status::Ok();
  {
    const Lock one_change(change_mutex_);
    KVBED_RETURN_IF_ERROR(CollectGarbage());
  }
  const uint64_t room = RoomBytes();
  if (record_bytes <= room) return Status::Ok();
  const uint64_t capacity_bytes = options_.settings.capacity_bytes;
  const char* twice = database_->wal() ? ", and with a log each record is written twice" : "";
  return Status::OutOfSpace(fmt::format(
      "{} has room for {} bytes and a record has {}: {}", folder_.path(), room, record_bytes,
      capacity_bytes != 0
          ? fmt::format("RocksDB's files and memtables take {}, its capacity is {}{}", UsedBytes(),
                        capacity_bytes, twice)
          : fmt::format("{} are kept in reserve (capacity= in the store's spec overrides it){}",
                        ReserveBytes(folder_.path()), twice)));
}

Result<Manifest> BlobStore::DoReadManifest(const std::string& name) {
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckReadable(name));
  }
  return catalog_.Read(name);
}

Result<std::vector<ManifestSummary>> BlobStore::DoListManifests() {
  const Lock lock(mutex_);
  return snapshots_.Summaries();
}

Result<std::vector<StoredRecord>> BlobStore::DoListRecords() {
  const Lock lock(mutex_);
  return index_.ListCommitted();
}

Result<Leftovers> BlobStore::DoListLeftovers(RecordNamer) {
  Leftovers leftovers;
  KVBED_RETURN_IF_ERROR(ListStoreFolderLeftovers(
      *io_, folder_, [](const DirectoryEntry&) { return false; }, leftovers));
  KVBED_RETURN_IF_ERROR(
      ListFolderLeftovers(*io_, folder_.contents_path(), IsDatabaseEntry, leftovers));
  const Lock lock(mutex_);
  KVBED_RETURN_IF_ERROR(catalog_.ListOrphans(index_, folder_.contents_path(), leftovers));
  return leftovers;
}

Result<RecordLocation> BlobStore::DoLocate(const RecordId& id, uint64_t) {
  {
    const Lock lock(mutex_);
    if (index_.Find(id) == nullptr) return index_.Missing(id);
  }
  BringToFiles();
  return LocateBlob(*io_, database_->BlobFiles(), id);
}

StoreInfo BlobStore::DoInfo() const {
  StoreInfo info;
  info.spec = options_.spec;
  info.kind = "rocksdb";
  info.design = options_.settings.fs == DbFileSystem::kPosix
                    ? "RocksDB's blob files as it writes them itself, through the page cache"
                : direct_.direct ? "RocksDB's blob files over kvbed's seam, direct I/O"
                                 : "RocksDB's blob files over kvbed's seam, through the page cache";
  info.uuid = folder_.uuid();
  info.direct = direct_.direct;
  info.direct_reason = direct_.reason;
  info.fs_type = direct_.filesystem;
  info.alignment_bytes = kPageBytes;
  info.allocated_bytes = AllocatedBytes(folder_.path());
  info.durability =
      database_->wal()
          ? "D0: in memtables and the log, not synced; D1: the log synced; D2: the manifest in it, "
            "synced"
          : "D0: in memtables; D1: memtables written to files and synced; D2: the manifest's too";
  Describe(database_->queue_info(), info);
  info.asynchronous = true;  // MultiGets on threads of their own
  info.iodepth_requested = options_.settings.iodepth;
  info.details = database_->Details();
  if (const uint64_t put_bytes = counters().bytes_written; put_bytes > 0) {
    info.write_amplification =
        static_cast<double>(database_->WrittenBytes()) / static_cast<double>(put_bytes);
  }
  info.warnings = database_->Warnings();
  if (!writes() && database_->HasUnflushed()) {
    info.warnings.push_back(
        "records that RocksDB has in its log only are read from memory until a writer has opened "
        "the store");
  }
  info.free_bytes = RoomBytes();
  info.capacity_bytes = options_.settings.capacity_bytes != 0 ? options_.settings.capacity_bytes
                                                              : UsedBytes() + info.free_bytes;
  const Lock lock(mutex_);
  info.records = index_.committed_records();
  info.logical_bytes = index_.committed_bytes();
  info.record_bytes = index_.CommonRecordBytes();
  return info;
}

}  // namespace

Result<std::unique_ptr<BlockStore>> MakeBlobStore(std::unique_ptr<Io> io,
                                                  const RocksDbStoreOptions& options,
                                                  StoreFolder folder, DirectSupport direct,
                                                  std::unique_ptr<Database> database) {
  auto store = std::make_unique<BlobStore>(std::move(io), options, std::move(folder),
                                           std::move(direct), std::move(database));
  KVBED_RETURN_IF_ERROR(store->Load());
  return std::unique_ptr<BlockStore>(std::move(store));
}

}  // namespace kvbed
