#include "backends/file_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "backends/channel_table.h"
#include "backends/commit_guard.h"
#include "backends/direct_support.h"
#include "backends/disk_space.h"
#include "backends/file_channel.h"
#include "backends/folder_leftovers.h"
#include "backends/manifest_folder.h"
#include "backends/queue_report.h"
#include "backends/record_index.h"
#include "backends/record_path.h"
#include "backends/snapshot_list.h"
#include "backends/store_errors.h"
#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

constexpr std::string_view kRecordsFolderName = "records";
// A remover may take a folder away between its making and its use.
constexpr int kFolderTries = 8;

// Nothing for a folder that another process removed, or that there is none of yet.
Result<std::vector<DirectoryEntry>> ListIfThere(Io& io, const std::string& path) {
  auto entries = io.List(path);
  if (entries.ok() || entries.status().code() != StatusCode::kNotFound) return entries;
  return std::vector<DirectoryEntry>();
}

class FileStore final : public BlockStore {
 public:
  FileStore(std::unique_ptr<Io> io, const FileStoreOptions& options, StoreFolder folder,
            DirectSupport direct)
      : io_(std::move(io)),
        options_(options),
        folder_(std::move(folder)),
        records_path_(folder_.path() + "/" + std::string(kRecordsFolderName)),
        direct_(std::move(direct)),
        manifests_(*io_, folder_.contents_path(), folder_.uuid()),
        guard_(folder_.path()) {}

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
  SyncMode sync() const { return options_.settings.sync; }
  std::string PathOf(const RecordId& id) const { return records_path_ + "/" + RecordPath(id); }
  Status CheckWritable() const;

  // With change_mutex_ held.
  Status Reload();
  Status CheckNameIsFree(const std::string& name);
  Status Publish(Manifest& manifest, RenameMode mode);
  Status Sweep();
  Status ListRecordLeftovers(const std::string& spread, const std::string& sequence,
                             Leftovers& leftovers);
  Status SweepSequence(const std::string& spread, const std::string& sequence);

  void Pump(FileChannel& channel);
  // True when the transfer was given to the device; else the request is done.
  bool Start(FileTransfer& transfer);
  Status StartPut(FileTransfer& transfer);
  Status StartGet(FileTransfer& transfer);
  Status OpenTemporary(FileTransfer& transfer);
  // Whether the transfer goes on with another step.
  bool Land(FileTransfer& transfer);
  bool LandPut(FileTransfer& transfer);
  Status PublishRecord(FileTransfer& transfer);
  void LandGet(FileTransfer& transfer);
  Status WhyMissing(const RecordId& id);
  Status SyncRecords(const std::vector<UnflushedRecord>& records);
  Status SyncRecordFolders(const std::set<std::string>& folders);

  // With mutex_ held.
  Status CheckRoom(uint64_t record_bytes) const;
  uint64_t RoomBytes() const;
  Result<bool> HasSameBytes(const std::string& path, Bytes record);
  void RemoveFiles(const std::vector<FreedRecord>& freed);

  const std::unique_ptr<Io> io_;
  const FileStoreOptions options_;
  StoreFolder folder_;
  const std::string records_path_;
  const DirectSupport direct_;

  std::mutex flush_mutex_;  // one flush at a time, so that no success hides another's failure
  // One change of the manifests, or of what is known of them, at a time; taken before mutex_.
  std::mutex change_mutex_;
  mutable std::mutex mutex_;

  ManifestFolder manifests_;  // changed with change_mutex_ held

  // All below are guarded by mutex_.
  RecordIndex index_;
  SnapshotList snapshots_;
  ChannelTable<FileChannel> channels_;
  IoQueueInfo queue_info_;
  uint64_t writing_bytes_ = 0;  // of puts under way
  CommitGuard guard_;
};

Status FileStore::Load() {
  KVBED_ASSIGN_OR_RETURN(auto scratch, io_->OpenQueue({.iodepth = options_.settings.iodepth}));
  queue_info_ = scratch->info();
  if (writes()) {
    // What killed writers left can be told from what others are writing when there are none.
    if (auto alone = folder_.writers().ExcludeOthers(*io_); alone.ok()) {
      KVBED_RETURN_IF_ERROR(Reload());
      return Sweep();
    }
  }
  return Reload();
}

// What the manifests say now. Other processes may have changed them.
Status FileStore::Reload() {
  RecordIndex index;
  SnapshotList snapshots;
  KVBED_RETURN_IF_ERROR(snapshots.Load(
      manifests_, [&](const Manifest& manifest) { return index.AddManifest(manifest); }));
  const Lock lock(mutex_);
  index.TakeUncommitted(index_);
  index_ = std::move(index);
  snapshots_ = std::move(snapshots);
  return Status::Ok();
}

// Files that no manifest names, when no one else is writing. Unknown files are left alone.
Status FileStore::Sweep() {
  KVBED_RETURN_IF_ERROR(SweepFolder(*io_, folder_.path()));
  KVBED_RETURN_IF_ERROR(SweepFolder(*io_, folder_.contents_path()));
  const auto spreads = io_->List(records_path_);
  if (!spreads.ok() && spreads.status().code() == StatusCode::kNotFound) return Status::Ok();
  KVBED_RETURN_IF_ERROR(spreads.status());
  for (const DirectoryEntry& spread : *spreads) {
    if (!spread.is_directory) continue;
    const std::string path = records_path_ + "/" + spread.name;
    KVBED_ASSIGN_OR_RETURN(const auto sequences, io_->List(path));
    for (const DirectoryEntry& sequence : sequences) {
      if (sequence.is_directory) {
        KVBED_RETURN_IF_ERROR(SweepSequence(spread.name, sequence.name));
      }
    }
    io_->RemoveDirectory(path).IgnoreError();  // one that isn't empty stays
  }
  return Status::Ok();
}

Status FileStore::SweepSequence(const std::string& spread, const std::string& sequence) {
  const std::string path = fmt::format("{}/{}/{}", records_path_, spread, sequence);
  KVBED_ASSIGN_OR_RETURN(const auto files, io_->List(path));
  const Lock lock(mutex_);
  for (const DirectoryEntry& file : files) {
    if (file.is_directory) continue;
    const auto id = RecordAtPath(spread, sequence, file.name);
    const bool unnamed = id && index_.Find(*id) == nullptr && !snapshots_.HasUnreadable();
    if (unnamed || IsTemporaryPath(file.name)) {
      KVBED_RETURN_IF_ERROR(io_->Unlink(path + "/" + file.name));
    }
  }
  io_->RemoveDirectory(path).IgnoreError();
  return Status::Ok();
}

Status FileStore::CheckWritable() const {
  if (!writes()) {
    return OpenedForReading(folder_.path());
  }
  const Lock lock(mutex_);
  return guard_.status();
}

Result<uint32_t> FileStore::DoOpenChannel(const ChannelOptions& options) {
  KVBED_ASSIGN_OR_RETURN(auto channel, FileChannel::Open(*io_, options));
  const Lock lock(mutex_);
  queue_info_.TakeOver(channel->info());
  return channels_.Add(std::move(channel));
}

void FileStore::DoCloseChannel(uint32_t handle) {
  const Lock lock(mutex_);
  channels_.Remove(handle);
}

void FileStore::DoSubmit(uint32_t handle, std::span<StoreRequest* const> requests) {
  FileChannel* channel = nullptr;
  {
    const Lock lock(mutex_);
    channel = channels_.at(handle);
  }
  for (StoreRequest* request : requests) channel->Wait(*request);
  Pump(*channel);
}

void FileStore::Pump(FileChannel& channel) {
  while (FileTransfer* transfer = channel.Begin()) {
    if (Start(*transfer)) {
      channel.Stage(*transfer);
    } else {
      channel.Finish(*transfer);
    }
  }
  channel.Submit();
}

bool FileStore::Start(FileTransfer& transfer) {
  StoreRequest& request = *transfer.request;
  const bool put = request.op == StoreRequest::Op::kPut;
  request.status = put ? StartPut(transfer) : StartGet(transfer);
  if (!request.status.ok() || request.deduplicated) return false;
  transfer.io = IoRequest{.op = put ? IoOp::kWrite : IoOp::kRead,
                          .file = &transfer.file,
                          .buffer = request.record,
                          .owner = &transfer};
  return true;
}

Status FileStore::StartPut(FileTransfer& transfer) {
  StoreRequest& request = *transfer.request;
  if (!writes()) {
    return OpenedForReading(folder_.path());
  }
  {
    const Lock lock(mutex_);
    if (const auto settled = index_.Settle(request)) return *settled;
    KVBED_RETURN_IF_ERROR(CheckRoom(request.record.size()));
    writing_bytes_ += request.record.size();
  }
  const Status opened = OpenTemporary(transfer);
  if (opened.ok()) return opened;
  const Lock lock(mutex_);
  writing_bytes_ -= request.record.size();
  return opened;
}

Status FileStore::OpenTemporary(FileTransfer& transfer) {
  transfer.temporary = TemporaryPath(PathOf(transfer.request->id));
  for (int tries = 1;; ++tries) {
    auto file =
        io_->Open(transfer.temporary,
                  {.write = true, .create = true, .exclusive = true, .direct = direct_.direct});
    if (file.ok()) {
      transfer.file = std::move(*file);
      return Status::Ok();
    }
    if (file.status().code() != StatusCode::kNotFound || tries == kFolderTries) {
      return file.status();
    }
    KVBED_RETURN_IF_ERROR(
        io_->MakeDirectories(records_path_ + "/" + RecordFolder(transfer.request->id.key)));
  }
}

Status FileStore::StartGet(FileTransfer& transfer) {
  const StoreRequest& request = *transfer.request;
  const uint64_t record_bytes = request.record.size();
  {
    // A file that no manifest names is somebody's work in progress.
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(index_.FindFor(request).status());
  }
  const std::string path = PathOf(request.id);
  auto file = io_->Open(path, {.direct = direct_.direct});
  if (!file.ok()) {
    return file.status().code() == StatusCode::kNotFound ? WhyMissing(request.id) : file.status();
  }
  KVBED_ASSIGN_OR_RETURN(const uint64_t file_bytes, io_->FileSize(*file));
  if (file_bytes > record_bytes) {
    return Status::Corruption(
        fmt::format("{} has {} bytes, the record {}", path, file_bytes, record_bytes));
  }
  transfer.file = std::move(*file);
  return Status::Ok();
}

// Of a file that isn't there: whether it was removed, or is lost while a manifest names it.
Status FileStore::WhyMissing(const RecordId& id) {
  const Lock one_change(change_mutex_);
  KVBED_RETURN_IF_ERROR(Reload());
  const Lock lock(mutex_);
  if (index_.Find(id) == nullptr) return index_.Missing(id);
  return Status::NotFound(fmt::format("{} is missing", PathOf(id)));
}

Status FileStore::DoReap(uint32_t handle, size_t min_complete,
                         std::vector<StoreRequest*>& completed) {
  FileChannel* channel = nullptr;
  {
    const Lock lock(mutex_);
    channel = channels_.at(handle);
  }
  size_t done = channel->Take(completed);
  std::vector<FileTransfer*> landed;
  Status status;
  do {
    landed.clear();
    status = channel->Reap(done < min_complete ? 1 : 0, landed);
    for (FileTransfer* transfer : landed) {
      if (Land(*transfer)) {
        channel->Stage(*transfer);
      } else {
        channel->Finish(*transfer);
      }
    }
    if (!status.ok()) channel->RefuseWaiting(status);
    Pump(*channel);
    done += channel->Take(completed);
  } while (status.ok() && done < min_complete);
  if (!status.ok()) {
    // A broken queue hands everything back at once, so that this ends.
    while (channel->under_way() > 0) {
      landed.clear();
      channel->Reap(1, landed).IgnoreError();
      for (FileTransfer* transfer : landed) {
        if (Land(*transfer)) {
          transfer->io.status = status;
          Land(*transfer);
        }
        channel->Finish(*transfer);
      }
    }
    channel->Take(completed);
  }
  if (channel->info_is_new()) {
    const Lock lock(mutex_);
    queue_info_.TakeOver(channel->info());
  }
  return status;
}

bool FileStore::Land(FileTransfer& transfer) {
  StoreRequest& request = *transfer.request;
  if (transfer.io.submitted_ns != 0 && transfer.io.op != IoOp::kDatasync) {
    request.submitted_ns = transfer.io.submitted_ns;
  }
  request.completed_ns = transfer.io.completed_ns;
  request.status = std::move(transfer.io.status);
  if (request.op == StoreRequest::Op::kPut) return LandPut(transfer);
  LandGet(transfer);
  return false;
}

bool FileStore::LandPut(FileTransfer& transfer) {
  StoreRequest& request = *transfer.request;
  if (request.status.ok() && transfer.io.op == IoOp::kWrite && sync() == SyncMode::kBlock) {
    transfer.io = IoRequest{.op = IoOp::kDatasync, .file = &transfer.file, .owner = &transfer};
    return true;
  }
  if (!request.status.ok() && transfer.io.op == IoOp::kDatasync) {
    const Lock lock(mutex_);
    guard_.NoteSync(request.status);
  }
  if (request.status.ok()) request.status = PublishRecord(transfer);
  if (!request.status.ok() || request.deduplicated) {
    io_->Unlink(transfer.temporary).IgnoreError();
  }
  const Lock lock(mutex_);
  writing_bytes_ -= request.record.size();
  return false;
}

Status FileStore::PublishRecord(FileTransfer& transfer) {
  StoreRequest& request = *transfer.request;
  const std::string path = PathOf(request.id);
  {
    const Lock lock(mutex_);
    // Another channel may have put the same id meanwhile; or another process, which may be about to
    // commit it.
    if (const auto settled = index_.Settle(request)) return *settled;
    const Status renamed = io_->Rename(transfer.temporary, path, RenameMode::kNoReplace);
    if (renamed.code() == StatusCode::kInvalidArgument) {
      KVBED_ASSIGN_OR_RETURN(request.deduplicated, HasSameBytes(path, request.record));
      if (!request.deduplicated) return RecordIndex::OtherBytes(request.id);
    } else {
      KVBED_RETURN_IF_ERROR(renamed);
    }
    request.place = 0;
    index_.Insert(request.id, 0, request.digest, request.record.size());
  }
  if (sync() != SyncMode::kBlock) return Status::Ok();
  const Status synced = SyncRecordFolders({RecordFolder(request.id.key)});
  if (!synced.ok()) {
    const Lock lock(mutex_);
    guard_.NoteSync(synced);
  }
  return synced;
}

// A store knows no digest but the one that it is told, so the bytes decide.
Result<bool> FileStore::HasSameBytes(const std::string& path, Bytes record) {
  KVBED_ASSIGN_OR_RETURN(const File file, io_->Open(path, {.direct = direct_.direct}));
  KVBED_ASSIGN_OR_RETURN(const uint64_t file_bytes, io_->FileSize(file));
  if (file_bytes != record.size()) return false;
  KVBED_ASSIGN_OR_RETURN(AlignedBuffer there, AlignedBuffer::Allocate(record.size()));
  KVBED_ASSIGN_OR_RETURN(auto queue, io_->OpenQueue({.iodepth = 1, .synchronous = true}));
  IoRequest read{.op = IoOp::kRead, .file = &file, .buffer = there.bytes().first(record.size())};
  KVBED_RETURN_IF_ERROR(MoveAlone(*queue, read));
  return std::equal(record.begin(), record.end(), there.bytes().begin());
}

void FileStore::LandGet(FileTransfer& transfer) {
  StoreRequest& request = *transfer.request;
  if (request.status.code() != StatusCode::kNotFound) return;
  // The queue met the end of the file.
  request.short_bytes = transfer.io.done_bytes;
  request.status = RecordIsShort(transfer.file.path() + " ends within the record",
                                 transfer.io.done_bytes, request.record.size());
}

Status FileStore::DoFlush() {
  const Lock one_flush(flush_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  std::vector<UnflushedRecord> records;
  {
    const Lock lock(mutex_);
    records = index_.TakeUnflushed();
  }
  const bool synced = sync() == SyncMode::kNone || sync() == SyncMode::kBlock;
  const Status status = synced ? Status::Ok() : SyncRecords(records);
  const Lock lock(mutex_);
  if (status.ok()) {
    index_.MarkDurable(records);
  } else {
    guard_.NoteSync(status);
  }
  return status;
}

// Every file, as deep as the queue goes, so that the filesystem can take many into one of its own
// commits; then the folders. The files are opened again: too many would have to stay open, and what
// a direct write could not bring to the device it said then.
Status FileStore::SyncRecords(const std::vector<UnflushedRecord>& records) {
  struct Sync {
    File file;
    IoRequest io;
  };
  std::vector<Sync> syncs(std::min<size_t>(options_.settings.iodepth, records.size()));
  std::vector<Sync*> idle;
  for (Sync& sync : syncs) idle.push_back(&sync);
  KVBED_ASSIGN_OR_RETURN(auto queue, io_->OpenQueue({.iodepth = options_.settings.iodepth}));
  std::set<std::string> folders;
  std::vector<IoRequest*> completed;
  Status status;
  for (size_t next = 0; next < records.size() || queue->outstanding() > 0;) {
    if (status.ok() && next < records.size() && !idle.empty()) {
      const RecordId& id = records[next++].id;
      auto file = io_->Open(PathOf(id), {});
      if (file.status().code() == StatusCode::kNotFound) continue;  // discarded since
      if (!file.ok()) {
        status = file.status();
        continue;
      }
      folders.insert(RecordFolder(id.key));
      Sync* const sync = idle.back();
      idle.pop_back();
      sync->file = std::move(*file);
      sync->io = IoRequest{.op = IoOp::kDatasync, .file = &sync->file, .owner = sync};
      IoRequest* const request = &sync->io;
      queue->Submit({&request, 1});
      continue;
    }
    if (queue->outstanding() == 0) break;
    completed.clear();
    const Status reaped = queue->Reap(1, completed);
    if (status.ok()) status = reaped;
    for (IoRequest* request : completed) {
      if (status.ok()) status = request->status;
      auto* const sync = static_cast<Sync*>(request->owner);
      sync->file = File();
      idle.push_back(sync);
    }
  }
  return status.ok() ? SyncRecordFolders(folders) : status;
}

Status FileStore::SyncRecordFolders(const std::set<std::string>& folders) {
  // The folders above too: they may be another process's, made and not yet synced.
  std::set<std::string> all;
  for (const std::string& folder : folders) {
    all.insert(records_path_ + "/" + folder);
    all.insert(records_path_ + "/" + folder.substr(0, folder.find('/')));
    all.insert(records_path_);
  }
  for (const std::string& path : all) {
    const Status status = io_->SyncDirectory(path);
    if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
  }
  return Status::Ok();
}

Status FileStore::CheckNameIsFree(const std::string& name) {
  {
    const Lock lock(mutex_);
    if (snapshots_.CheckName(name, CommitMode::kNew).ok()) return Status::Ok();
  }
  KVBED_RETURN_IF_ERROR(Reload());
  const Lock lock(mutex_);
  return snapshots_.CheckName(name, CommitMode::kNew);
}

Status FileStore::Publish(Manifest& manifest, RenameMode mode) {
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(index_.Reference(manifest));
  }
  manifest.store_uuid = folder_.uuid();
  const FolderChange change = manifests_.Publish(manifest, mode);
  std::vector<FreedRecord> freed;
  {
    const Lock lock(mutex_);
    if (!change.status.ok()) {
      if (change.settled) index_.Unreference(manifest);
      guard_.NoteChange(change);
    } else {
      index_.Release(snapshots_.Put(manifest), freed);
      RemoveFiles(freed);
    }
  }
  if (change.status.code() != StatusCode::kInvalidArgument) return change.status;
  // Another process took the name meanwhile.
  KVBED_RETURN_IF_ERROR(Reload());
  const Lock lock(mutex_);
  KVBED_RETURN_IF_ERROR(snapshots_.CheckName(manifest.name, CommitMode::kNew));
  return change.status;
}

Status FileStore::DoCommit(Manifest& manifest, CommitMode mode) {
  const Lock one_change(change_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  if (mode == CommitMode::kNew) {
    KVBED_RETURN_IF_ERROR(CheckNameIsFree(manifest.name));
    return Publish(manifest, RenameMode::kNoReplace);
  }
  // What is replaced is removed.
  KVBED_ASSIGN_OR_RETURN(const WriterLock::Alone alone, folder_.writers().ExcludeOthers(*io_));
  KVBED_RETURN_IF_ERROR(Reload());
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckName(manifest.name, mode));
  }
  return Publish(manifest, RenameMode::kReplace);
}

Status FileStore::DoRemoveManifest(const std::string& name) {
  const Lock one_change(change_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  KVBED_ASSIGN_OR_RETURN(const WriterLock::Alone alone, folder_.writers().ExcludeOthers(*io_));
  KVBED_RETURN_IF_ERROR(Reload());
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckRemovable(name));
  }
  const FolderChange change = manifests_.Remove(name);
  const Lock lock(mutex_);
  if (!change.status.ok()) {
    if (!change.settled) guard_.NoteChange(change);
    return change.status;
  }
  std::vector<FreedRecord> freed;
  index_.Release(snapshots_.Remove(name), freed);
  RemoveFiles(freed);
  return Status::Ok();
}

// Records that another process may be about to commit stay; the next writer that is alone sweeps
// them up.
void FileStore::DoDiscard(std::span<const RecordId> ids) {
  if (ids.empty() || !writes()) return;
  const Lock one_change(change_mutex_);
  const auto alone = folder_.writers().ExcludeOthers(*io_);
  const bool known = alone.ok() && Reload().ok();
  const Lock lock(mutex_);
  std::vector<FreedRecord> freed;
  index_.Discard(ids, freed);
  if (known) RemoveFiles(freed);
}

// Where an unreadable manifest may name them, files stay until it is gone. A file that can't be
// removed is swept up later.
void FileStore::RemoveFiles(const std::vector<FreedRecord>& freed) {
  if (snapshots_.HasUnreadable()) return;
  std::set<std::string> folders;
  for (const FreedRecord& record : freed) {
    io_->Unlink(PathOf(record.id)).IgnoreError();
    folders.insert(RecordFolder(record.id.key));
  }
  for (const std::string& folder : folders) {
    if (!io_->RemoveDirectory(records_path_ + "/" + folder).ok()) continue;
    io_->RemoveDirectory(records_path_ + "/" + folder.substr(0, folder.find('/'))).IgnoreError();
  }
}

Result<Manifest> FileStore::DoReadManifest(const std::string& name) {
  const Lock one_change(change_mutex_);
  auto manifest = manifests_.Read(name);
  if (!manifest.ok() && manifest.status().code() != StatusCode::kNotFound) return manifest;
  {
    const Lock lock(mutex_);
    if (manifest.ok() && snapshots_.Has(*manifest)) return manifest;
  }
  // Another process committed or removed it.
  KVBED_RETURN_IF_ERROR(Reload());
  const Lock lock(mutex_);
  KVBED_RETURN_IF_ERROR(snapshots_.CheckReadable(name));
  return manifest;
}

Result<std::vector<ManifestSummary>> FileStore::DoListManifests() {
  const Lock one_change(change_mutex_);
  KVBED_RETURN_IF_ERROR(Reload());
  const Lock lock(mutex_);
  return snapshots_.Summaries();
}

Result<std::vector<StoredRecord>> FileStore::DoListRecords() {
  const Lock lock(mutex_);
  return index_.ListCommitted();
}

// A record or a temporary file may be another process's, at work.
Result<Leftovers> FileStore::DoListLeftovers(RecordNamer) {
  const Lock one_change(change_mutex_);
  KVBED_RETURN_IF_ERROR(Reload());
  Leftovers leftovers;
  KVBED_RETURN_IF_ERROR(ListStoreFolderLeftovers(
      *io_, folder_,
      [](const DirectoryEntry& entry) {
        return entry.is_directory && entry.name == kRecordsFolderName;
      },
      leftovers));
  KVBED_RETURN_IF_ERROR(
      ListFolderLeftovers(*io_, folder_.contents_path(), IsManifestEntry, leftovers));
  const auto spreads = ListIfThere(*io_, records_path_);
  KVBED_RETURN_IF_ERROR(spreads.status());
  for (const DirectoryEntry& spread : *spreads) {
    if (!spread.is_directory) {
      leftovers.Add(FolderLeftover(records_path_, spread));
      continue;
    }
    const std::string path = records_path_ + "/" + spread.name;
    KVBED_ASSIGN_OR_RETURN(const auto sequences, ListIfThere(*io_, path));
    for (const DirectoryEntry& sequence : sequences) {
      if (sequence.is_directory) {
        KVBED_RETURN_IF_ERROR(ListRecordLeftovers(spread.name, sequence.name, leftovers));
      } else {
        leftovers.Add(FolderLeftover(path, sequence));
      }
    }
  }
  return leftovers;
}

Status FileStore::ListRecordLeftovers(const std::string& spread, const std::string& sequence,
                                      Leftovers& leftovers) {
  const std::string path = fmt::format("{}/{}/{}", records_path_, spread, sequence);
  KVBED_ASSIGN_OR_RETURN(const auto files, ListIfThere(*io_, path));
  const Lock lock(mutex_);
  for (const DirectoryEntry& file : files) {
    Leftover leftover = FolderLeftover(path, file);
    if (const auto id = RecordAtPath(spread, sequence, file.name); id && !file.is_directory) {
      if (index_.Find(*id) != nullptr) continue;
      leftover.kind = LeftoverKind::kRecord;
      leftover.id = id;
    }
    leftovers.Add(std::move(leftover));
  }
  return Status::Ok();
}

Result<RecordLocation> FileStore::DoLocate(const RecordId& id, uint64_t) {
  const Lock lock(mutex_);
  const IndexEntry* entry = index_.Find(id);
  if (entry == nullptr) return index_.Missing(id);
  return RecordLocation{.path = PathOf(id), .offset = 0, .size_bytes = entry->record_bytes};
}

// Each writer counts what is committed and its own.
uint64_t FileStore::RoomBytes() const {
  const auto available = AvailableBytes(folder_.path());
  uint64_t room = available.ok() ? *available : 0;
  const uint64_t capacity_bytes = options_.settings.capacity_bytes;
  if (capacity_bytes == 0) {
    room -= std::min(room, ReserveBytes(folder_.path()));
  } else {
    const uint64_t used = index_.committed_bytes() + index_.uncommitted_bytes();
    room = std::min(room, capacity_bytes - std::min(capacity_bytes, used));
  }
  return room - std::min(room, writing_bytes_);
}

Status FileStore::CheckRoom(uint64_t record_bytes) const {
  const uint64_t room = RoomBytes();
  if (record_bytes <= room) return Status::Ok();
  const uint64_t capacity_bytes = options_.settings.capacity_bytes;
  return Status::OutOfSpace(fmt::format(
      "{} has room for {} bytes and a record has {}: {}", folder_.path(), room, record_bytes,
      capacity_bytes != 0
          ? fmt::format("its capacity is {} bytes", capacity_bytes)
          : fmt::format("{} are kept in reserve (capacity= in the store's spec overrides it)",
                        ReserveBytes(folder_.path()))));
}

std::string DurabilityOf(SyncMode sync) {
  const std::string manifest = "fsync, rename, fsync of the folder";
  switch (sync) {
    case SyncMode::kNone: return "nothing (sync=none); " + manifest;
    case SyncMode::kBlock:
      return "fdatasync and rename of each file and fsync of its folder before the put "
             "completes; " +
             manifest;
    case SyncMode::kFull:
    case SyncMode::kCommit: break;
  }
  return "fdatasync of every file, fsync of its folder; " + manifest;
}

std::string DesignOf(const DirectSupport& direct, SyncMode sync) {
  std::string text = "a file for each block";
  if (!direct.direct && sync == SyncMode::kNone) {
    return text +
           ", through the page cache and never synced, as many serving stacks do: a read "
           "may come from memory, and a power cut may take what was committed";
  }
  text += direct.direct ? ", direct I/O" : ", through the page cache";
  switch (sync) {
    case SyncMode::kNone: return text + ", never synced";
    case SyncMode::kBlock: return text + ", each synced by itself";
    case SyncMode::kFull:
    case SyncMode::kCommit: break;
  }
  return text + ", synced before the manifest";
}

StoreInfo FileStore::DoInfo() const {
  StoreInfo info;
  info.spec = options_.spec;
  info.kind = "files";
  info.design = DesignOf(direct_, sync());
  info.uuid = folder_.uuid();
  info.direct = direct_.direct;
  info.direct_reason = direct_.reason;
  info.fs_type = direct_.filesystem;
  info.alignment_bytes = kPageBytes;
  info.allocated_bytes = AllocatedBytes(folder_.path());
  info.durability = DurabilityOf(sync());
  const Lock lock(mutex_);
  Describe(queue_info_, info);
  info.records = index_.committed_records();
  info.logical_bytes = index_.committed_bytes();
  info.free_bytes = RoomBytes();
  info.capacity_bytes =
      options_.settings.capacity_bytes != 0
          ? options_.settings.capacity_bytes
          : index_.committed_bytes() + index_.uncommitted_bytes() + info.free_bytes;
  info.record_bytes = index_.CommonRecordBytes();
  return info;
}

}  // namespace

Result<std::unique_ptr<BlockStore>> OpenFileStore(std::unique_ptr<Io> io,
                                                  const FileStoreOptions& options) {
  KVBED_ASSIGN_OR_RETURN(
      StoreFolder folder,
      StoreFolder::Open(*io, options.path, {.name = "files", .sharing = Sharing::kManyWriters},
                        options.access));
  KVBED_ASSIGN_OR_RETURN(DirectSupport direct,
                         FindDirectSupport(*io, folder.path(), options.settings.direct,
                                           options.access != StoreAccess::kRead));
  auto store =
      std::make_unique<FileStore>(std::move(io), options, std::move(folder), std::move(direct));
  KVBED_RETURN_IF_ERROR(store->Load());
  return std::unique_ptr<BlockStore>(std::move(store));
}

}  // namespace kvbed
