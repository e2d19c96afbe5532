// Stores that are broken on purpose, each in one way, over a real one: what the campaigns of
// `kvbed verify` must report. They know no campaign.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "offload/block_store.h"
#include "tools/verify/store_opener.h"

namespace kvbed {

// Hands everything on.
class StoreDecorator : public BlockStore {
 public:
  explicit StoreDecorator(std::unique_ptr<BlockStore> base) : base_(std::move(base)) {}

 protected:
  Result<uint32_t> DoOpenChannel(const ChannelOptions& options) override {
    KVBED_ASSIGN_OR_RETURN(StoreChannel channel, base_->OpenChannel(options));
    const std::lock_guard lock(mutex_);
    channels_.push_back(std::make_unique<StoreChannel>(std::move(channel)));
    return static_cast<uint32_t>(channels_.size() - 1);
  }
  void DoCloseChannel(uint32_t channel) override {
    std::unique_ptr<StoreChannel> closing;
    const std::lock_guard lock(mutex_);
    closing = std::move(channels_[channel]);
  }
  void DoSubmit(uint32_t channel, std::span<StoreRequest* const> requests) override {
    Channel(channel).Submit(requests);
  }
  Status DoReap(uint32_t channel, size_t min_complete,
                std::vector<StoreRequest*>& completed) override {
    const size_t before = completed.size();
    const Status status = Channel(channel).Reap(min_complete, completed);
    for (size_t i = before; i < completed.size(); ++i) OnCompleted(*completed[i]);
    return status;
  }
  Status DoFlush() override { return base_->Flush(); }
  Status DoCommit(Manifest& manifest, CommitMode mode) override {
    return base_->Commit(manifest, mode);
  }
  void DoDiscard(std::span<const RecordId> ids) override { base_->Discard(ids); }
  Result<Manifest> DoReadManifest(const std::string& name) override {
    return base_->ReadManifest(name);
  }
  Result<std::vector<ManifestSummary>> DoListManifests() override { return base_->ListManifests(); }
  Status DoRemoveManifest(const std::string& name) override { return base_->RemoveManifest(name); }
  Result<std::vector<StoredRecord>> DoListRecords() override { return base_->ListRecords(); }
  Result<Leftovers> DoListLeftovers(RecordNamer namer) override {
    return base_->ListLeftovers(namer);
  }
  Result<RecordLocation> DoLocate(const RecordId& id, uint64_t place) override {
    return base_->Locate(id, place);
  }
  StoreInfo DoInfo() const override { return base_->info(); }

  virtual void OnCompleted(StoreRequest&) {}

  StoreChannel& Channel(uint32_t channel) {
    const std::lock_guard lock(mutex_);
    return *channels_[channel];
  }

  std::unique_ptr<BlockStore> base_;
  std::mutex mutex_;

 private:
  std::vector<std::unique_ptr<StoreChannel>> channels_;  // guarded by mutex_
};

// A commit is answered before it is made: at the next one, or at the end.
class AnswersBeforeItCommits : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  ~AnswersBeforeItCommits() override { Catch().IgnoreError(); }

 protected:
  Status DoCommit(Manifest& manifest, CommitMode mode) override {
    KVBED_RETURN_IF_ERROR(Catch());
    late_ = {manifest, mode};
    return Status::Ok();
  }
  Status DoRemoveManifest(const std::string& name) override {
    KVBED_RETURN_IF_ERROR(Catch());
    return base_->RemoveManifest(name);
  }

 private:
  Status Catch() {
    if (!late_) return Status::Ok();
    auto [manifest, mode] = *std::exchange(late_, std::nullopt);
    return base_->Commit(manifest, mode);
  }
  std::optional<std::pair<Manifest, CommitMode>> late_;
};

// Replaces a snapshot by removing it first.
class RemovesBeforeItReplaces : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

 protected:
  Status DoCommit(Manifest& manifest, CommitMode mode) override {
    if (mode == CommitMode::kReplace && base_->ReadManifest(manifest.name).ok()) {
      KVBED_RETURN_IF_ERROR(base_->RemoveManifest(manifest.name));
    }
    return base_->Commit(manifest, mode);
  }
};

// Forgets one committed snapshot when it is opened.
class LosesASnapshotWhenReopened : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

 protected:
  Result<Manifest> DoReadManifest(const std::string& name) override {
    if (IsLost(name)) return Status::NotFound("no snapshot " + name);
    return base_->ReadManifest(name);
  }
  Status DoCommit(Manifest& manifest, CommitMode mode) override {
    const std::lock_guard lock(mutex_);
    mine_.push_back(manifest.name);
    return base_->Commit(manifest, mode);
  }

 private:
  bool IsLost(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return std::ranges::count(mine_, name) == 0 && base_->ReadManifest(name).ok();
  }
  std::vector<std::string> mine_;
};

// Keeps all manifests that were committed under a name, for what gives the wrong one.
class KeepsVersions : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

 protected:
  Status DoCommit(Manifest& manifest, CommitMode mode) override {
    KVBED_RETURN_IF_ERROR(base_->Commit(manifest, mode));
    const std::lock_guard lock(mutex_);
    versions_[manifest.name].push_back(manifest);
    return Status::Ok();
  }

  std::map<std::string, std::vector<Manifest>> versions_;  // guarded by mutex_
};

// Once two snapshots of a name were committed, gives the first half of one and the second of the
// other.
class MixesTwoSnapshots : public KeepsVersions {
 public:
  using KeepsVersions::KeepsVersions;

 protected:
  Result<Manifest> DoReadManifest(const std::string& name) override {
    KVBED_ASSIGN_OR_RETURN(Manifest manifest, base_->ReadManifest(name));
    const std::lock_guard lock(mutex_);
    const auto& versions = versions_[name];
    if (versions.size() < 2 || versions.back().blocks.size() != manifest.blocks.size()) {
      return manifest;
    }
    const auto& older = versions[versions.size() - 2].blocks;
    const size_t half = std::min(older.size(), manifest.blocks.size()) / 2;
    std::copy_n(older.begin(), half, manifest.blocks.begin());
    return manifest;
  }
};

// Serves the manifest that it had before the last.
class ServesOldStates : public KeepsVersions {
 public:
  using KeepsVersions::KeepsVersions;

 protected:
  Result<Manifest> DoReadManifest(const std::string& name) override {
    KVBED_ASSIGN_OR_RETURN(Manifest manifest, base_->ReadManifest(name));
    const std::lock_guard lock(mutex_);
    const auto& versions = versions_[name];
    return versions.size() < 2 ? manifest : versions[versions.size() - 2];
  }
};

// A put is answered at once and made at the next flush, from the caller's memory.
class ReadsTheCallersMemoryLate : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

 protected:
  void DoSubmit(uint32_t channel, std::span<StoreRequest* const> requests) override {
    std::vector<StoreRequest*> gets;
    const std::lock_guard lock(late_mutex_);
    for (StoreRequest* request : requests) {
      if (request->op == StoreRequest::Op::kGet) {
        gets.push_back(request);
      } else {
        answered_[channel].push_back(request);
        late_.push_back({.op = request->op,
                         .id = request->id,
                         .digest = request->digest,
                         .record = request->record,
                         .status = {},
                         .short_bytes = {}});
      }
    }
    if (!gets.empty()) Channel(channel).Submit(gets);
  }
  Status DoReap(uint32_t channel, size_t min_complete,
                std::vector<StoreRequest*>& completed) override {
    size_t done = 0;
    {
      const std::lock_guard lock(late_mutex_);
      auto& answered = answered_[channel];
      done = answered.size();
      completed.insert(completed.end(), answered.begin(), answered.end());
      answered.clear();
    }
    if (done >= min_complete) return Status::Ok();
    return StoreDecorator::DoReap(channel, min_complete - done, completed);
  }
  Status DoFlush() override {
    const std::lock_guard lock(late_mutex_);
    KVBED_ASSIGN_OR_RETURN(StoreChannel channel, base_->OpenChannel({}));
    std::vector<StoreRequest*> puts, completed;
    for (StoreRequest& put : late_) puts.push_back(&put);
    channel.Submit(puts);
    while (channel.outstanding() > 0) KVBED_RETURN_IF_ERROR(channel.Reap(1, completed));
    late_.clear();
    return base_->Flush();
  }

 private:
  std::mutex late_mutex_;
  std::map<uint32_t, std::vector<StoreRequest*>> answered_;
  std::deque<StoreRequest> late_;
};

// Writes once more into the caller's memory when the next record is handed back.
class WritesTheCallersMemoryLate : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

 protected:
  void OnCompleted(StoreRequest& request) override {
    if (request.op != StoreRequest::Op::kGet || !request.status.ok()) return;
    const std::lock_guard lock(mutex_);
    // Of the same batch, so that the memory is still there.
    auto& [before, memory] = before_[std::this_thread::get_id()];
    if (before != nullptr && before + 1 == &request &&
        memory.data() + memory.size() == request.record.data()) {
      memory.back() = std::byte{0};
    }
    before = &request;
    memory = request.record;
  }

 private:
  std::map<std::thread::id, std::pair<StoreRequest*, MutableBytes>> before_;
};

// Gives other bytes for every fifth record.
class FlipsABit : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

 protected:
  void OnCompleted(StoreRequest& request) override {
    if (request.op != StoreRequest::Op::kGet || !request.status.ok()) return;
    const std::lock_guard lock(mutex_);
    if (++gets_ % 5 == 0) request.record[5000] ^= std::byte{4};
  }

 private:
  uint64_t gets_ = 0;
};

// Takes what doesn't fit for stored.
class SwallowsWhatDoesntFit : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

 protected:
  void OnCompleted(StoreRequest& request) override {
    if (request.op == StoreRequest::Op::kPut) request.status = Status::Ok();
  }
  Status DoCommit(Manifest& manifest, CommitMode mode) override {
    base_->Commit(manifest, mode).IgnoreError();
    return Status::Ok();
  }
};

// Drops an older snapshot to make room, and says nothing.
class EvictsWhatWasCommitted : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

 protected:
  Status DoCommit(Manifest& manifest, CommitMode mode) override {
    const auto listed = base_->ListManifests();
    if (listed.ok() && listed->size() > 4) {
      base_->RemoveManifest(listed->front().name).IgnoreError();
    }
    return base_->Commit(manifest, mode);
  }
};

template <class Broken>
Result<std::unique_ptr<BlockStore>> OpenBroken(std::unique_ptr<Io> io, const StoreSpec& spec,
                                               const StoreOpenOptions& options) {
  KVBED_ASSIGN_OR_RETURN(auto store, OpenAsItIs(std::move(io), spec, options));
  return std::unique_ptr<BlockStore>(std::make_unique<Broken>(std::move(store)));
}

}  // namespace kvbed
