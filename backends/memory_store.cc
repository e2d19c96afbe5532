#include "backends/memory_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/manifest_folder.h"
#include "backends/record_index.h"
#include "backends/snapshot_list.h"
#include "backends/store_identity.h"
#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

class MemoryStore final : public BlockStore {
 public:
  explicit MemoryStore(const MemoryStoreOptions& options)
      : options_(options), uuid_(NewStoreIdentity("memory").uuid) {}

 protected:
  Result<uint32_t> DoOpenChannel(const ChannelOptions& options) override;
  void DoCloseChannel(uint32_t) override {}
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
  using ReadLock = std::shared_lock<std::shared_mutex>;
  using WriteLock = std::lock_guard<std::shared_mutex>;

  // With mutex_ held, for a put exclusively.
  Status Put(StoreRequest& request);
  Status Get(const StoreRequest& request) const;
  void Forget(const std::vector<FreedRecord>& freed);

  const MemoryStoreOptions options_;
  const Digest128 uuid_;

  mutable std::shared_mutex mutex_;
  // All guarded by mutex_. Records have their own places, so that a get needs no name for its
  // bytes.
  RecordIndex index_;
  std::unordered_map<uint64_t, std::vector<std::byte>> records_;  // by place
  uint64_t next_place_ = 0;
  uint64_t bytes_ = 0;
  SnapshotList snapshots_;
  std::map<std::string, Manifest> manifests_;
  std::vector<std::vector<StoreRequest*>> finished_;  // by channel
};

Result<uint32_t> MemoryStore::DoOpenChannel(const ChannelOptions&) {
  const WriteLock lock(mutex_);
  finished_.emplace_back();
  return static_cast<uint32_t>(finished_.size() - 1);
}

void MemoryStore::DoSubmit(uint32_t channel, std::span<StoreRequest* const> requests) {
  for (StoreRequest* request : requests) {
    if (request->op == StoreRequest::Op::kPut) {
      const WriteLock lock(mutex_);
      request->status = Put(*request);
    } else {
      const ReadLock lock(mutex_);
      request->status = Get(*request);
    }
  }
  const WriteLock lock(mutex_);
  finished_[channel].insert(finished_[channel].end(), requests.begin(), requests.end());
}

Status MemoryStore::DoReap(uint32_t channel, size_t, std::vector<StoreRequest*>& completed) {
  const WriteLock lock(mutex_);
  completed.insert(completed.end(), finished_[channel].begin(), finished_[channel].end());
  finished_[channel].clear();
  return Status::Ok();
}

Status MemoryStore::Put(StoreRequest& request) {
  if (const auto settled = index_.Settle(request)) return *settled;
  const uint64_t record_bytes = request.record.size();
  if (options_.capacity_bytes != 0 && bytes_ + record_bytes > options_.capacity_bytes) {
    return Status::OutOfSpace(
        fmt::format("the memory store has {} of {} bytes and can't take {} more", bytes_,
                    options_.capacity_bytes, record_bytes));
  }
  request.place = next_place_++;
  records_[request.place].assign(request.record.begin(), request.record.end());
  bytes_ += record_bytes;
  index_.Insert(request.id, request.place, request.digest, record_bytes);
  return Status::Ok();
}

Status MemoryStore::Get(const StoreRequest& request) const {
  KVBED_ASSIGN_OR_RETURN(const IndexEntry* entry, index_.FindFor(request));
  const std::vector<std::byte>& bytes = records_.at(entry->place);
  std::copy(bytes.begin(), bytes.end(), request.record.begin());
  return Status::Ok();
}

Status MemoryStore::DoFlush() {
  const WriteLock lock(mutex_);
  index_.MarkDurable(index_.TakeUnflushed());
  return Status::Ok();
}

Status MemoryStore::DoCommit(Manifest& manifest, CommitMode mode) {
  const WriteLock lock(mutex_);
  KVBED_RETURN_IF_ERROR(snapshots_.CheckName(manifest.name, mode));
  KVBED_RETURN_IF_ERROR(index_.Reference(manifest));
  manifest.store_uuid = uuid_;
  manifests_[manifest.name] = manifest;
  std::vector<FreedRecord> freed;
  index_.Release(snapshots_.Put(manifest), freed);
  Forget(freed);
  return Status::Ok();
}

Status MemoryStore::DoRemoveManifest(const std::string& name) {
  const WriteLock lock(mutex_);
  KVBED_RETURN_IF_ERROR(snapshots_.CheckRemovable(name));
  manifests_.erase(name);
  std::vector<FreedRecord> freed;
  index_.Release(snapshots_.Remove(name), freed);
  Forget(freed);
  return Status::Ok();
}

void MemoryStore::DoDiscard(std::span<const RecordId> ids) {
  const WriteLock lock(mutex_);
  std::vector<FreedRecord> freed;
  index_.Discard(ids, freed);
  Forget(freed);
}

void MemoryStore::Forget(const std::vector<FreedRecord>& freed) {
  for (const FreedRecord& record : freed) {
    records_.erase(record.place);
    bytes_ -= record.record_bytes;
  }
}

Result<Manifest> MemoryStore::DoReadManifest(const std::string& name) {
  const ReadLock lock(mutex_);
  KVBED_RETURN_IF_ERROR(snapshots_.CheckReadable(name));
  return manifests_.at(name);
}

Result<std::vector<ManifestSummary>> MemoryStore::DoListManifests() {
  const ReadLock lock(mutex_);
  return snapshots_.Summaries();
}

Result<std::vector<StoredRecord>> MemoryStore::DoListRecords() {
  const ReadLock lock(mutex_);
  return index_.ListCommitted();
}

// There are no files, and what was put and isn't committed was put through this handle.
Result<Leftovers> MemoryStore::DoListLeftovers(RecordNamer) { return Leftovers(); }

Result<RecordLocation> MemoryStore::DoLocate(const RecordId&, uint64_t) {
  return Status::NotSupported("a memory store's records are in no file");
}

StoreInfo MemoryStore::DoInfo() const {
  StoreInfo info;
  info.spec = options_.spec;
  info.kind = "memory";
  info.design = "copies in memory";
  info.uuid = uuid_;
  info.ioengine = "none";
  info.direct_reason = "memory";
  info.alignment_bytes = kPageBytes;
  info.iodepth_requested = options_.iodepth;
  info.durability = "none: memory";
  info.capacity_bytes = options_.capacity_bytes;
  const ReadLock lock(mutex_);
  info.records = index_.committed_records();
  info.logical_bytes = index_.committed_bytes();
  info.allocated_bytes = bytes_;
  if (options_.capacity_bytes != 0) info.free_bytes = options_.capacity_bytes - bytes_;
  info.record_bytes = index_.CommonRecordBytes();
  return info;
}

}  // namespace

std::unique_ptr<BlockStore> MakeMemoryStore(const MemoryStoreOptions& options) {
  return std::make_unique<MemoryStore>(options);
}

}  // namespace kvbed
