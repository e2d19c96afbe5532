// A store whose records lie in slots of slab files, whatever keeps its manifests. DESIGN: an index
// in memory, built from the manifests; a slot is reused only after the change that drops it is
// durable and nobody reads it.
//
// A Keeper has these members. Names to Remove are about manifests: changes are made one at a time,
// and durable on return.
//   Result<std::vector<std::string>> Names();
//   Result<Manifest> Read(const std::string& name);
//   FolderChange Publish(const Manifest& manifest, CommitMode mode);
//   FolderChange Remove(const std::string& name);
// The rest is for one that keeps the places of records as well. All but the first two may be called
// from any thread; what is noted must take no time.
//   Status KeepOnly(const RecordIndex& index);  // when it is opened: forgets other records
//   Status Ready();                             // why no further record can be taken
//   void NotePut(const RecordId& id, const IndexEntry& entry);
//   void NoteFreed(const std::vector<FreedRecord>& freed);
//   Status MakePutsDurable();                   // those that were noted; their data are durable
//   // For each request that is a get, where its record is by this keeper; empty when the store's
//   // own index is to say so.
//   std::vector<Result<uint64_t>> FindPlaces(std::span<StoreRequest* const> requests);
//   // Files in its own folder that are nobody's, or others'.
//   Status ListLeftovers(Io& io, const StoreFolder& folder, Leftovers& leftovers);
//   void Describe(StoreInfo& info);
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/channel_table.h"
#include "backends/commit_guard.h"
#include "backends/direct_support.h"
#include "backends/disk_space.h"
#include "backends/folder_leftovers.h"
#include "backends/free_slots.h"
#include "backends/manifest_folder.h"
#include "backends/queue_report.h"
#include "backends/record_index.h"
#include "backends/slab_channel.h"
#include "backends/slab_files.h"
#include "backends/slab_store.h"
#include "backends/snapshot_list.h"
#include "backends/store_errors.h"
#include "offload/aligned_buffer.h"

namespace kvbed {

template <class Keeper>
class SlabStoreWith final : public BlockStore {
 public:
  SlabStoreWith(std::unique_ptr<Io> io, const SlabStoreOptions& options, StoreFolder folder,
                DirectSupport direct, std::unique_ptr<Keeper> keeper)
      : io_(std::move(io)),
        options_(options),
        folder_(std::move(folder)),
        direct_(std::move(direct)),
        keeper_(std::move(keeper)),
        files_(*io_, {.directory = folder_.path(),
                      .write = options.access != StoreAccess::kRead,
                      .direct = direct_.direct,
                      .capacity_bytes = options.settings.capacity_bytes}),
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
  Status CheckWritable() const;

  // With mutex_ held.
  Status CheckPlaces(const Manifest& manifest);
  Status LoadManifest(const Manifest& manifest);
  Status BeginPut(SlabChannel& channel, StoreRequest& request);
  Status BeginGet(SlabChannel& channel, StoreRequest& request, const Result<uint64_t>* found);
  void Land(SlabTransfer& transfer);
  void LandPut(SlabTransfer& transfer);
  void LandGet(SlabTransfer& transfer);
  void FreeSlots(const std::vector<FreedRecord>& freed);

  Status SyncData(const std::vector<const SlabFile*>& files);

  const std::unique_ptr<Io> io_;
  const SlabStoreOptions options_;
  const StoreFolder folder_;
  const DirectSupport direct_;

  std::mutex flush_mutex_;   // one flush at a time, so that no success hides another's failure
  std::mutex commit_mutex_;  // one change of the manifests at a time; taken before mutex_
  mutable std::mutex mutex_;

  const std::unique_ptr<Keeper> keeper_;  // manifests are changed with commit_mutex_ held

  // All below are guarded by mutex_.
  SlabFiles files_;
  RecordIndex index_;
  SnapshotList snapshots_;
  ChannelTable<SlabChannel> channels_;
  IoQueueInfo queue_info_;
  CommitGuard guard_;
};

template <class Keeper>
Status SlabStoreWith<Keeper>::Load() {
  KVBED_ASSIGN_OR_RETURN(auto scratch, io_->OpenQueue({.iodepth = options_.settings.iodepth}));
  queue_info_ = scratch->info();
  KVBED_ASSIGN_OR_RETURN(const std::vector<std::string> names, keeper_->Names());
  snapshots_.Load(
      names, [this](const std::string& name) { return keeper_->Read(name); },
      [this](const Manifest& manifest) { return LoadManifest(manifest); });
  KVBED_RETURN_IF_ERROR(files_.OpenAll());
  if (!writes()) return Status::Ok();
  if (snapshots_.HasUnreadable()) {
    files_.WithholdUnnamedSlots();
  } else {
    KVBED_RETURN_IF_ERROR(keeper_->KeepOnly(index_));
  }
  if (options_.record_bytes_hint == 0) return Status::Ok();
  return files_.ForWriting(options_.record_bytes_hint).status();
}

// A slot belongs to one record, and its offset is one.
template <class Keeper>
Status SlabStoreWith<Keeper>::CheckPlaces(const Manifest& manifest) {
  const uint64_t record_bytes = manifest.geometry.record_bytes();
  SlabFile& slab = files_.Expect(record_bytes);
  std::vector<uint64_t> new_slots;
  for (const ManifestBlock& block : manifest.blocks) {
    if (block.place >= static_cast<uint64_t>(INT64_MAX) / record_bytes) {
      return NoFileHasSlot(manifest, block.place);
    }
    if (index_.Find(block.id) != nullptr) continue;
    if (slab.slots.IsUsed(block.place)) {
      return SlotHoldsNewerRecord(manifest, block.place, slab.path);
    }
    new_slots.push_back(block.place);
  }
  std::sort(new_slots.begin(), new_slots.end());
  const auto twice = std::adjacent_find(new_slots.begin(), new_slots.end());
  if (twice == new_slots.end()) return Status::Ok();
  return SlotIsNamedTwice(manifest, *twice);
}

template <class Keeper>
Status SlabStoreWith<Keeper>::LoadManifest(const Manifest& manifest) {
  KVBED_RETURN_IF_ERROR(CheckPlaces(manifest));
  KVBED_RETURN_IF_ERROR(index_.AddManifest(manifest));
  SlabFile& slab = files_.Expect(manifest.geometry.record_bytes());
  for (const ManifestBlock& block : manifest.blocks) slab.slots.MarkUsed(block.place);
  return Status::Ok();
}

template <class Keeper>
Status SlabStoreWith<Keeper>::CheckWritable() const {
  if (!writes()) {
    return OpenedForReading(folder_.path());
  }
  const Lock lock(mutex_);
  return guard_.status();
}

template <class Keeper>
Result<uint32_t> SlabStoreWith<Keeper>::DoOpenChannel(const ChannelOptions& options) {
  KVBED_ASSIGN_OR_RETURN(auto channel, SlabChannel::Open(*io_, options));
  const Lock lock(mutex_);
  queue_info_.TakeOver(channel->info());
  return channels_.Add(std::move(channel));
}

template <class Keeper>
void SlabStoreWith<Keeper>::DoCloseChannel(uint32_t handle) {
  std::unique_ptr<SlabChannel> channel;
  {
    const Lock lock(mutex_);
    channel = channels_.Remove(handle);
  }
  // A broken queue may have kept transfers; their requests are their callers' again.
  for (const SlabTransfer* transfer : channel->Close()) {
    const Lock lock(mutex_);
    if (transfer->io.op == IoOp::kWrite) {
      transfer->slab->slots.Free(transfer->slot);
    } else {
      transfer->slab->slots.Unpin(transfer->slot);
    }
  }
}

template <class Keeper>
void SlabStoreWith<Keeper>::DoSubmit(uint32_t handle, std::span<StoreRequest* const> requests) {
  const std::vector<Result<uint64_t>> places = keeper_->FindPlaces(requests);
  SlabChannel* channel = nullptr;
  {
    const Lock lock(mutex_);
    channel = channels_.at(handle);
    for (size_t i = 0; i < requests.size(); ++i) {
      StoreRequest& request = *requests[i];
      request.status = request.op == StoreRequest::Op::kPut
                           ? BeginPut(*channel, request)
                           : BeginGet(*channel, request, places.empty() ? nullptr : &places[i]);
      if (!request.status.ok() || request.deduplicated) channel->Finish(request);
    }
  }
  channel->Submit();
}

template <class Keeper>
Status SlabStoreWith<Keeper>::BeginPut(SlabChannel& channel, StoreRequest& request) {
  if (!writes()) {
    return OpenedForReading(folder_.path());
  }
  if (const auto settled = index_.Settle(request)) return *settled;
  KVBED_RETURN_IF_ERROR(keeper_->Ready());
  auto slab = files_.ForWriting(request.record.size());
  if (files_.name_sync_failed()) guard_.NoteSync(slab.status());
  if (!slab.ok()) return slab.status();
  KVBED_ASSIGN_OR_RETURN(const uint64_t slot, files_.TakeSlot(**slab));
  channel.Stage(request, **slab, slot);
  return Status::Ok();
}

template <class Keeper>
Status SlabStoreWith<Keeper>::BeginGet(SlabChannel& channel, StoreRequest& request,
                                       const Result<uint64_t>* found) {
  KVBED_ASSIGN_OR_RETURN(const IndexEntry* entry, index_.FindFor(request));
  if (found != nullptr) {
    KVBED_RETURN_IF_ERROR(found->status());
    if (**found != entry->place) {
      return PlacesDiffer(request.id, **found, entry->place);
    }
  }
  SlabFile& slab = *files_.Find(entry->record_bytes);
  if (!slab.file.is_open()) return slab.open_status;
  slab.slots.Pin(entry->place);
  channel.Stage(request, slab, entry->place);
  return Status::Ok();
}

template <class Keeper>
Status SlabStoreWith<Keeper>::DoReap(uint32_t handle, size_t min_complete,
                                     std::vector<StoreRequest*>& completed) {
  SlabChannel* channel = nullptr;
  {
    const Lock lock(mutex_);
    channel = channels_.at(handle);
  }
  std::vector<SlabTransfer*>& landed = channel->landed();
  landed.clear();
  const Status status = channel->Reap(min_complete, completed, landed);
  const Lock lock(mutex_);
  for (SlabTransfer* transfer : landed) {
    Land(*transfer);
    completed.push_back(transfer->request);
    channel->Recycle(*transfer);
  }
  if (channel->info_is_new()) queue_info_.TakeOver(channel->info());
  return status;
}

template <class Keeper>
void SlabStoreWith<Keeper>::Land(SlabTransfer& transfer) {
  StoreRequest& request = *transfer.request;
  request.status = std::move(transfer.io.status);
  if (transfer.io.submitted_ns != 0) request.submitted_ns = transfer.io.submitted_ns;
  request.completed_ns = transfer.io.completed_ns;
  if (transfer.io.op == IoOp::kWrite) {
    LandPut(transfer);
  } else {
    LandGet(transfer);
  }
}

template <class Keeper>
void SlabStoreWith<Keeper>::LandPut(SlabTransfer& transfer) {
  StoreRequest& request = *transfer.request;
  if (!request.status.ok()) {
    transfer.slab->slots.Free(transfer.slot);
    return;
  }
  // Another channel may have put the same id meanwhile.
  if (const auto settled = index_.Settle(request)) {
    transfer.slab->slots.Free(transfer.slot);
    request.status = *settled;
    return;
  }
  request.place = transfer.slot;
  transfer.slab->unsynced = true;
  index_.Insert(request.id, transfer.slot, request.digest, request.record.size());
  keeper_->NotePut(request.id, *index_.Find(request.id));
}

template <class Keeper>
void SlabStoreWith<Keeper>::LandGet(SlabTransfer& transfer) {
  StoreRequest& request = *transfer.request;
  transfer.slab->slots.Unpin(transfer.slot);
  if (request.status.code() != StatusCode::kNotFound) return;
  // The queue met the end of the file.
  request.short_bytes = transfer.io.done_bytes;
  request.status =
      RecordIsShort(transfer.slab->path + " ends within slot " + std::to_string(transfer.slot),
                    transfer.io.done_bytes, request.record.size());
}

template <class Keeper>
Status SlabStoreWith<Keeper>::DoFlush() {
  const Lock one_flush(flush_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  std::vector<UnflushedRecord> records;
  std::vector<const SlabFile*> unsynced;
  {
    const Lock lock(mutex_);
    records = index_.TakeUnflushed();
    for (auto& [record_bytes, slab] : files_.all()) {
      if (std::exchange(slab.unsynced, false)) unsynced.push_back(&slab);
    }
  }
  Status status = options_.settings.sync == SyncMode::kNone ? Status::Ok() : SyncData(unsynced);
  if (status.ok()) status = keeper_->MakePutsDurable();
  const Lock lock(mutex_);
  if (status.ok()) {
    index_.MarkDurable(records);
  } else {
    guard_.NoteSync(status);
  }
  return status;
}

template <class Keeper>
Status SlabStoreWith<Keeper>::SyncData(const std::vector<const SlabFile*>& files) {
  if (files.empty()) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(auto queue, io_->OpenQueue({.iodepth = 1, .synchronous = true}));
  for (const SlabFile* slab : files) {
    IoRequest sync{.op = IoOp::kDatasync, .file = &slab->file};
    KVBED_RETURN_IF_ERROR(MoveAlone(*queue, sync));
  }
  return Status::Ok();
}

template <class Keeper>
Status SlabStoreWith<Keeper>::DoCommit(Manifest& manifest, CommitMode mode) {
  const Lock one_change(commit_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckName(manifest.name, mode));
    KVBED_RETURN_IF_ERROR(index_.Reference(manifest));
  }
  manifest.store_uuid = folder_.uuid();
  const FolderChange change = keeper_->Publish(manifest, mode);
  const Lock lock(mutex_);
  if (!change.status.ok()) {
    if (change.settled) index_.Unreference(manifest);
    guard_.NoteChange(change);
    return change.status;
  }
  std::vector<FreedRecord> freed;
  index_.Release(snapshots_.Put(manifest), freed);
  FreeSlots(freed);
  if (!snapshots_.HasUnreadable()) files_.StopWithholding();
  return Status::Ok();
}

template <class Keeper>
Status SlabStoreWith<Keeper>::DoRemoveManifest(const std::string& name) {
  const Lock one_change(commit_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckRemovable(name));
  }
  const FolderChange change = keeper_->Remove(name);
  const Lock lock(mutex_);
  if (!change.status.ok()) {
    if (!change.settled) guard_.NoteChange(change);
    return change.status;
  }
  std::vector<FreedRecord> freed;
  index_.Release(snapshots_.Remove(name), freed);
  FreeSlots(freed);
  if (!snapshots_.HasUnreadable()) files_.StopWithholding();
  return Status::Ok();
}

template <class Keeper>
void SlabStoreWith<Keeper>::DoDiscard(std::span<const RecordId> ids) {
  const Lock lock(mutex_);
  std::vector<FreedRecord> freed;
  index_.Discard(ids, freed);
  FreeSlots(freed);
}

template <class Keeper>
void SlabStoreWith<Keeper>::FreeSlots(const std::vector<FreedRecord>& freed) {
  // An unreadable manifest may name them too.
  if (!snapshots_.HasUnreadable()) keeper_->NoteFreed(freed);
  for (const FreedRecord& record : freed) {
    files_.Find(record.record_bytes)->slots.Free(record.place);
  }
}

template <class Keeper>
Result<Manifest> SlabStoreWith<Keeper>::DoReadManifest(const std::string& name) {
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckReadable(name));
  }
  return keeper_->Read(name);
}

template <class Keeper>
Result<std::vector<ManifestSummary>> SlabStoreWith<Keeper>::DoListManifests() {
  const Lock lock(mutex_);
  return snapshots_.Summaries();
}

template <class Keeper>
Result<std::vector<StoredRecord>> SlabStoreWith<Keeper>::DoListRecords() {
  const Lock lock(mutex_);
  return index_.ListCommitted();
}

template <class Keeper>
Result<Leftovers> SlabStoreWith<Keeper>::DoListLeftovers(RecordNamer namer) {
  Leftovers leftovers;
  KVBED_RETURN_IF_ERROR(ListStoreFolderLeftovers(
      *io_, folder_,
      [](const DirectoryEntry& entry) {
        return !entry.is_directory && SlabRecordBytes(entry.name).has_value();
      },
      leftovers));
  KVBED_RETURN_IF_ERROR(keeper_->ListLeftovers(*io_, folder_, leftovers));
  if (namer == nullptr) return leftovers;
  std::vector<UnusedSlots> free;
  {
    const Lock lock(mutex_);
    free = FindUnusedSlots(files_);
  }
  KVBED_RETURN_IF_ERROR(
      ListRecordsInFreeSlots(*io_, free, options_.settings.iodepth, namer, leftovers));
  return leftovers;
}

template <class Keeper>
Result<RecordLocation> SlabStoreWith<Keeper>::DoLocate(const RecordId& id, uint64_t) {
  const Lock lock(mutex_);
  const IndexEntry* entry = index_.Find(id);
  if (entry == nullptr) return index_.Missing(id);
  return RecordLocation{.path = files_.Find(entry->record_bytes)->path,
                        .offset = entry->place * entry->record_bytes,
                        .size_bytes = entry->record_bytes};
}

template <class Keeper>
StoreInfo SlabStoreWith<Keeper>::DoInfo() const {
  StoreInfo info;
  info.spec = options_.spec;
  info.kind = "slab";
  info.design = direct_.direct ? "slots of preallocated files, direct I/O"
                               : "slots of preallocated files, through the page cache";
  info.overwrites = true;
  info.uuid = folder_.uuid();
  info.direct = direct_.direct;
  info.direct_reason = direct_.reason;
  info.fs_type = direct_.filesystem;
  info.alignment_bytes = kPageBytes;
  info.allocated_bytes = AllocatedBytes(folder_.path());
  info.durability = options_.settings.sync == SyncMode::kNone
                        ? "nothing (sync=none); fsync, rename, fsync of the folder"
                        : "fdatasync; fsync, rename, fsync of the folder";
  const Lock lock(mutex_);
  Describe(queue_info_, info);
  info.records = index_.committed_records();
  info.logical_bytes = index_.committed_bytes();
  info.capacity_bytes = files_.CapacityBytes();
  info.free_bytes = files_.FreeBytes();
  info.record_bytes = index_.CommonRecordBytes();
  keeper_->Describe(info);
  return info;
}

}  // namespace kvbed
