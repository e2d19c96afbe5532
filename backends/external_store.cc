#include "backends/external_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "backends/channel_table.h"
#include "backends/external_child.h"
#include "backends/external_manifests.h"
#include "backends/record_index.h"
#include "backends/request_workers.h"
#include "backends/shared_window.h"
#include "backends/snapshot_list.h"
#include "backends/store_errors.h"
#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

// What tells one external store from another: how it is started.
Digest128 IdentityOf(const ExternalStoreOptions& options) {
  std::string text = options.kind;
  for (const std::string& argument : options.argv) text += '\0' + argument;
  return Xxh3_128(AsBytes(text));
}

class ExternalStore final : public BlockStore {
 public:
  ExternalStore(std::unique_ptr<Io> io, const ExternalStoreOptions& options, SharedWindow window)
      : io_(std::move(io)),
        options_(options),
        uuid_(IdentityOf(options)),
        window_(std::move(window)) {}
  ~ExternalStore() override;

  Status Load();

  ExternalStoreState State() const;
  void Kill();
  Status Restart(ChildEnd end);
  Result<std::vector<bool>> Exists(std::span<const RecordId> ids);
  Result<std::vector<RecordId>> List();
  void GetUnindexed(std::span<StoreRequest* const> requests);

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
  Result<RecordLocation> DoLocate(const RecordId& id, uint64_t place) override;
  StoreInfo DoInfo() const override;

 private:
  using Lock = std::lock_guard<std::mutex>;

  Status CheckWritable() const;
  Status MissingCapability(std::string_view what) const;
  RequestWorkers* ChannelAt(uint32_t handle);

  // With call_mutex_ held.
  Status StartChild();
  // Why there is none, or what it died of; then child_ may be null.
  Status ChildStatus() const;
  Status LoadManifests();
  void Run(std::span<StoreRequest* const> requests);
  // Those that the child has to be asked about, and not for the same id twice at once; the others
  // are done, or appended to `later`.
  void Choose(std::span<StoreRequest* const> requests, std::vector<StoreRequest*>& puts,
              std::vector<StoreRequest*>& gets, std::vector<StoreRequest*>& later);
  Status RemoveRecords(const std::vector<FreedRecord>& freed);

  const std::unique_ptr<Io> io_;
  const ExternalStoreOptions options_;
  const Digest128 uuid_;
  SharedWindow window_;

  // One call at a time; taken before mutex_, which no call holds.
  std::mutex call_mutex_;
  mutable std::mutex mutex_;

  // Changed with both held, so that either will do for reading.
  std::unique_ptr<ExternalChild> child_;
  Status start_status_;  // why there is no child
  ExternalGreeting greeting_;
  std::optional<ExternalManifests> manifests_;

  // All below are guarded by mutex_.
  RecordIndex index_;
  SnapshotList snapshots_;
  ChannelTable<RequestWorkers> channels_;
  uint64_t calls_before_ = 0;  // of earlier children
  uint64_t restarts_ = 0;
  uint64_t failed_removals_ = 0;
  Status failed_removal_;
};

ExternalStore::~ExternalStore() {
  if (child_ != nullptr && child_->failure().ok()) child_->Close().IgnoreError();
}

Status ExternalStore::Load() {
  const Lock one_call(call_mutex_);
  KVBED_RETURN_IF_ERROR(StartChild());
  KVBED_ASSIGN_OR_RETURN(
      ExternalManifests manifests,
      ExternalManifests::Open(*io_, options_, greeting_.capabilities.manifests, uuid_));
  manifests_.emplace(std::move(manifests));
  return LoadManifests();
}

Status ExternalStore::StartChild() {
  auto child = ExternalChild::Start(options_, window_);
  const Lock lock(mutex_);
  start_status_ = child.ok() ? Status::Ok() : child.status();
  child_ = child.ok() ? std::move(*child) : nullptr;
  if (child_ == nullptr) return start_status_;
  const ExternalCapabilities before = greeting_.capabilities;
  greeting_ = child_->greeting();
  if (!manifests_ || greeting_.capabilities == before) return Status::Ok();
  child_ = nullptr;
  start_status_ = Status::IoError(
      fmt::format("{}: started again it has other capabilities than before", options_.spec));
  return start_status_;
}

Status ExternalStore::ChildStatus() const {
  return child_ == nullptr ? start_status_ : child_->failure();
}

// What the manifests name is all that there is.
Status ExternalStore::LoadManifests() {
  KVBED_ASSIGN_OR_RETURN(const std::vector<std::string> names, manifests_->List(*child_));
  RecordIndex index;
  SnapshotList snapshots;
  snapshots.Load(
      names, [&](const std::string& name) { return manifests_->Read(*child_, name); },
      [&](const Manifest& manifest) { return index.AddManifest(manifest); });
  KVBED_RETURN_IF_ERROR(ChildStatus());
  const Lock lock(mutex_);
  index_ = std::move(index);
  snapshots_ = std::move(snapshots);
  return Status::Ok();
}

Status ExternalStore::CheckWritable() const {
  if (options_.access != StoreAccess::kRead) return Status::Ok();
  return OpenedForReading(options_.spec);
}

Status ExternalStore::MissingCapability(std::string_view what) const {
  return Status::NotSupported(
      fmt::format("{}: the store hasn't the capability {}", options_.spec, what));
}

// ---- records -----------------------------------------------------------------------------------

Result<uint32_t> ExternalStore::DoOpenChannel(const ChannelOptions& options) {
  // A thread of its own, so that a channel's caller can go on meanwhile.
  auto workers = std::make_unique<RequestWorkers>(1, options.iodepth,
                                                  [this](std::span<StoreRequest* const> requests) {
                                                    const Lock one_call(call_mutex_);
                                                    Run(requests);
                                                  });
  const Lock lock(mutex_);
  return channels_.Add(std::move(workers));
}

void ExternalStore::DoCloseChannel(uint32_t handle) {
  std::unique_ptr<RequestWorkers> workers;
  const Lock lock(mutex_);
  workers = channels_.Remove(handle);
}

RequestWorkers* ExternalStore::ChannelAt(uint32_t handle) {
  const Lock lock(mutex_);
  return channels_.at(handle);
}

void ExternalStore::DoSubmit(uint32_t handle, std::span<StoreRequest* const> requests) {
  ChannelAt(handle)->Add(requests);
}

Status ExternalStore::DoReap(uint32_t handle, size_t min_complete,
                             std::vector<StoreRequest*>& completed) {
  ChannelAt(handle)->Take(min_complete, completed);
  return Status::Ok();
}

void ExternalStore::Run(std::span<StoreRequest* const> requests) {
  if (const Status status = ChildStatus(); !status.ok()) {
    for (StoreRequest* request : requests) request->status = status;
    return;
  }
  std::vector<StoreRequest*> now(requests.begin(), requests.end());
  while (!now.empty()) {
    std::vector<StoreRequest*> puts, gets, later;
    Choose(now, puts, gets, later);
    child_->Put(puts);
    {
      const Lock lock(mutex_);
      for (StoreRequest* put : puts) {
        put->place = 0;
        if (put->status.ok()) index_.Insert(put->id, 0, put->digest, put->record.size());
      }
    }
    child_->Get(gets);
    now = std::move(later);
  }
}

void ExternalStore::Choose(std::span<StoreRequest* const> requests,
                           std::vector<StoreRequest*>& puts, std::vector<StoreRequest*>& gets,
                           std::vector<StoreRequest*>& later) {
  std::unordered_set<RecordId, RecordIdHash> putting;
  const Status writable = CheckWritable();
  const Lock lock(mutex_);
  for (StoreRequest* request : requests) {
    if (request->op == StoreRequest::Op::kGet) {
      request->status = index_.FindFor(*request).status();
      if (request->status.ok()) gets.push_back(request);
      // A put of it may be in this very batch.
      if (putting.contains(request->id)) later.push_back(request);
      continue;
    }
    request->status = writable;
    if (!writable.ok()) continue;
    if (const auto settled = index_.Settle(*request)) {
      request->status = *settled;
    } else {
      (putting.insert(request->id).second ? puts : later).push_back(request);
    }
  }
}

Status ExternalStore::RemoveRecords(const std::vector<FreedRecord>& freed) {
  if (freed.empty() || !greeting_.capabilities.remove) return Status::Ok();
  KVBED_RETURN_IF_ERROR(ChildStatus());
  const Status status = child_->Remove(IdsOf(freed));
  if (status.ok()) return status;
  const Lock lock(mutex_);
  failed_removals_ += freed.size();
  failed_removal_ = status;
  return status;
}

void ExternalStore::DoDiscard(std::span<const RecordId> ids) {
  const Lock one_call(call_mutex_);
  std::vector<FreedRecord> freed;
  {
    const Lock lock(mutex_);
    index_.Discard(ids, freed);
  }
  RemoveRecords(freed).IgnoreError();  // info() tells
}

Result<std::vector<StoredRecord>> ExternalStore::DoListRecords() {
  std::vector<StoredRecord> records;
  const Lock one_call(call_mutex_);
  {
    const Lock lock(mutex_);
    records = index_.ListCommitted();
  }
  if (!greeting_.capabilities.list) return records;
  // Both are in the order of their bytes.
  KVBED_RETURN_IF_ERROR(ChildStatus());
  KVBED_ASSIGN_OR_RETURN(const std::vector<RecordId> listed, child_->List());
  const std::unordered_set<RecordId, RecordIdHash> there(listed.begin(), listed.end());
  for (const StoredRecord& record : records) {
    if (there.contains(record.id)) continue;
    return Status::Corruption(
        fmt::format("{}: the store's list of {} records lacks {}, which a snapshot names",
                    options_.spec, listed.size(), record.id.ToString()));
  }
  return records;
}

Result<RecordLocation> ExternalStore::DoLocate(const RecordId&, uint64_t) {
  return Status::NotSupported(
      fmt::format("{}: where its records are only the store knows", options_.spec));
}

// ---- durability and manifests ------------------------------------------------------------------

Status ExternalStore::DoFlush() {
  const Lock one_call(call_mutex_);
  KVBED_RETURN_IF_ERROR(ChildStatus());
  std::vector<UnflushedRecord> records;
  {
    const Lock lock(mutex_);
    records = index_.TakeUnflushed();
  }
  if (greeting_.capabilities.flush) KVBED_RETURN_IF_ERROR(child_->Flush());
  const Lock lock(mutex_);
  index_.MarkDurable(records);
  return Status::Ok();
}

Status ExternalStore::DoCommit(Manifest& manifest, CommitMode mode) {
  const Lock one_call(call_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  KVBED_RETURN_IF_ERROR(ChildStatus());
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckName(manifest.name, mode));
    KVBED_RETURN_IF_ERROR(index_.Reference(manifest));
  }
  manifest.store_uuid = uuid_;
  const FolderChange change = manifests_->Publish(*child_, manifest, mode);
  std::vector<FreedRecord> freed;
  {
    const Lock lock(mutex_);
    if (!change.status.ok()) {
      // What may be there all the same keeps its records.
      if (change.settled) index_.Unreference(manifest);
      return change.status;
    }
    index_.Release(snapshots_.Put(manifest), freed);
  }
  RemoveRecords(freed).IgnoreError();  // the snapshot is there; info() tells
  return Status::Ok();
}

Result<Manifest> ExternalStore::DoReadManifest(const std::string& name) {
  const Lock one_call(call_mutex_);
  KVBED_RETURN_IF_ERROR(ChildStatus());
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckReadable(name));
  }
  return manifests_->Read(*child_, name);
}

Result<std::vector<ManifestSummary>> ExternalStore::DoListManifests() {
  const Lock lock(mutex_);
  return snapshots_.Summaries();
}

Status ExternalStore::DoRemoveManifest(const std::string& name) {
  const Lock one_call(call_mutex_);
  KVBED_RETURN_IF_ERROR(CheckWritable());
  KVBED_RETURN_IF_ERROR(ChildStatus());
  {
    const Lock lock(mutex_);
    KVBED_RETURN_IF_ERROR(snapshots_.CheckRemovable(name));
  }
  KVBED_RETURN_IF_ERROR(manifests_->Remove(*child_, name).status);
  std::vector<FreedRecord> freed;
  {
    const Lock lock(mutex_);
    index_.Release(snapshots_.Remove(name), freed);
  }
  return RemoveRecords(freed).WithContext(
      fmt::format("the snapshot {} is removed, and its records aren't", name));
}

// ---- the child ---------------------------------------------------------------------------------

ExternalStoreState ExternalStore::State() const {
  const Lock lock(mutex_);
  ExternalStoreState state;
  state.name = greeting_.name;
  state.capabilities = greeting_.capabilities;
  state.lossy = greeting_.lossy;
  state.manifests = manifests_->place();
  state.pid = child_ == nullptr ? 0 : child_->pid();
  state.failure = ChildStatus();
  state.calls = calls_before_ + (child_ == nullptr ? 0 : child_->calls());
  state.restarts = restarts_;
  return state;
}

void ExternalStore::Kill() {
  const Lock lock(mutex_);
  if (child_ != nullptr) child_->Kill();
}

Status ExternalStore::Restart(ChildEnd end) {
  const Lock one_call(call_mutex_);
  Status closed;
  if (child_ != nullptr && child_->failure().ok()) {
    if (end == ChildEnd::kClose) closed = child_->Close();
    if (end == ChildEnd::kKill) child_->Kill();
  }
  std::unique_ptr<ExternalChild> old;
  {
    const Lock lock(mutex_);
    if (child_ != nullptr) calls_before_ += child_->calls();
    old = std::move(child_);
    start_status_ = Status::IoError(fmt::format("{}: it is being started again", options_.spec));
    ++restarts_;
  }
  old.reset();  // it is gone before another takes its files
  KVBED_RETURN_IF_ERROR(StartChild());
  KVBED_RETURN_IF_ERROR(LoadManifests());
  ForgetFailedFlush();
  return closed;
}

Result<std::vector<bool>> ExternalStore::Exists(std::span<const RecordId> ids) {
  const Lock one_call(call_mutex_);
  KVBED_RETURN_IF_ERROR(ChildStatus());
  if (!greeting_.capabilities.exists) return MissingCapability("exists");
  return child_->Exists(ids);
}

Result<std::vector<RecordId>> ExternalStore::List() {
  const Lock one_call(call_mutex_);
  KVBED_RETURN_IF_ERROR(ChildStatus());
  if (!greeting_.capabilities.list) return MissingCapability("list");
  return child_->List();
}

void ExternalStore::GetUnindexed(std::span<StoreRequest* const> requests) {
  const Lock one_call(call_mutex_);
  const Status status = ChildStatus();
  for (StoreRequest* request : requests) request->status = status;
  if (status.ok()) child_->Get(requests);
}

StoreInfo ExternalStore::DoInfo() const {
  const ExternalStoreState state = State();
  const ExternalCapabilities& can = state.capabilities;
  StoreInfo info;
  info.spec = options_.spec;
  info.kind = options_.kind;
  info.design = fmt::format("{} in a process of its own",
                            state.name.empty() ? std::string("a store") : state.name);
  info.uuid = uuid_;
  info.ioengine = "none";
  info.direct_reason = "the store's own affair";
  info.registered_buffers_reason = info.registered_files_reason =
      "records reach the store through shared memory";
  info.alignment_bytes = kPageBytes;
  info.asynchronous = true;
  info.iodepth_requested = options_.iodepth;
  info.durability =
      fmt::format("{}; {}", can.flush ? "the store's flush" : "a put that the store has answered",
                  state.manifests == ExternalStoreState::Manifests::kStore ? "the store's commit"
                  : state.manifests == ExternalStoreState::Manifests::kFolder
                      ? "fsync, rename, fsync of " + options_.manifests_directory
                      : "none: manifests are in memory");
  std::vector<std::string_view> names;
  const std::pair<std::string_view, bool> all[] = {{"flush", can.flush},
                                                   {"exists", can.exists},
                                                   {"remove", can.remove},
                                                   {"list", can.list},
                                                   {"manifests", can.manifests}};
  for (const auto& [name, has] : all) {
    if (has) names.push_back(name);
  }
  info.details = {{"command", fmt::format("{}", fmt::join(options_.argv, " "))},
                  {"capabilities", fmt::format("{}", fmt::join(names, " "))},
                  {"lossy", state.lossy ? "yes" : "no"},
                  {"timeout_ms", std::to_string(options_.timeout_ms)},
                  {"window_bytes", std::to_string(window_.bytes().size())}};
  info.warnings.push_back(
      "times hold the way to the store's process, and the copies that prove what it did there");
  if (!can.remove) info.warnings.push_back("the store can't remove: its records stay for ever");
  const Lock lock(mutex_);
  if (failed_removals_ > 0) {
    info.warnings.push_back(fmt::format("{} records couldn't be removed: {}", failed_removals_,
                                        failed_removal_.message()));
  }
  info.records = index_.committed_records();
  info.logical_bytes = index_.committed_bytes();
  info.record_bytes = index_.CommonRecordBytes();
  return info;
}

ExternalStore& ExternalOf(BlockStore& store) {
  auto* external = dynamic_cast<ExternalStore*>(&store);
  KVBED_CHECK(external != nullptr);
  return *external;
}

}  // namespace

Result<std::unique_ptr<BlockStore>> OpenExternalStore(std::unique_ptr<Io> io,
                                                      const ExternalStoreOptions& options) {
  KVBED_ASSIGN_OR_RETURN(SharedWindow window, SharedWindow::Create(options.window_bytes));
  auto store = std::make_unique<ExternalStore>(std::move(io), options, std::move(window));
  KVBED_RETURN_IF_ERROR(store->Load());
  return std::unique_ptr<BlockStore>(std::move(store));
}

std::optional<ExternalStoreState> StateOfExternalStore(const BlockStore& store) {
  const auto* external = dynamic_cast<const ExternalStore*>(&store);
  if (external == nullptr) return std::nullopt;
  return external->State();
}

void KillExternalStore(BlockStore& store) { ExternalOf(store).Kill(); }

Status RestartExternalStore(BlockStore& store, ChildEnd end) {
  return ExternalOf(store).Restart(end);
}

Result<std::vector<bool>> ExternalExists(BlockStore& store, std::span<const RecordId> ids) {
  return ExternalOf(store).Exists(ids);
}

Result<std::vector<RecordId>> ExternalList(BlockStore& store) { return ExternalOf(store).List(); }

void ExternalGet(BlockStore& store, std::span<StoreRequest* const> requests) {
  ExternalOf(store).GetUnindexed(requests);
}

}  // namespace kvbed
