// A store in memory for tests of the offloader: it does nothing by itself but what a test lets it
// do. Completions come out of order, a test breaks requests and bytes with hooks, and it counts
// what is in flight.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "offload/block_store.h"

namespace kvbed {

class ScriptedStore final : public BlockStore {
 public:
  // Called when a request completes, after a get's bytes were copied in; may change both.
  std::function<void(StoreRequest&)> on_complete;
  Status flush_status;
  Status commit_status;
  Status reap_status;  // an error breaks the channel

  bool asynchronous = true;  // what info says

  std::map<RecordId, std::vector<std::byte>> records;
  std::map<std::string, Manifest> manifests;
  std::vector<RecordId> discarded;
  Leftovers leftovers;
  size_t in_flight_max = 0;
  // A queue that isn't refilled in time shows here as a smaller number than iodepth.
  std::vector<size_t> in_flight_at_reap;
  Digest128 uuid = Xxh3_128(AsBytes("scripted store"));

 protected:
  Result<uint32_t> DoOpenChannel(const ChannelOptions& options) override {
    (void)options;
    return 0u;
  }
  void DoCloseChannel(uint32_t) override { KVBED_CHECK(queue_.empty()); }
  void DoSubmit(uint32_t, std::span<StoreRequest* const> requests) override {
    queue_.insert(queue_.end(), requests.begin(), requests.end());
    in_flight_max = std::max(in_flight_max, queue_.size());
  }
  // The newest request first, so that nothing relies on order; one more than asked for when there
  // is.
  Status DoReap(uint32_t, size_t min_complete, std::vector<StoreRequest*>& completed) override {
    in_flight_at_reap.push_back(queue_.size());
    size_t wanted = reap_status.ok() ? std::min(queue_.size(), min_complete + 1) : queue_.size();
    for (; wanted > 0; --wanted) {
      StoreRequest* request = queue_.back();
      queue_.pop_back();
      if (reap_status.ok()) {
        Complete(*request);
      } else {
        request->status = reap_status;
      }
      completed.push_back(request);
    }
    return reap_status;
  }
  Status DoFlush() override { return flush_status; }
  Status DoCommit(Manifest& manifest, CommitMode mode) override {
    KVBED_RETURN_IF_ERROR(commit_status);
    if (mode == CommitMode::kNew && manifests.contains(manifest.name)) {
      return Status::InvalidArgument("snapshot exists: " + manifest.name);
    }
    for (const ManifestBlock& block : manifest.blocks) {
      if (!records.contains(block.id)) return Status::NotFound(block.id.ToString());
    }
    manifests[manifest.name] = manifest;
    return Status::Ok();
  }
  void DoDiscard(std::span<const RecordId> ids) override {
    for (const RecordId& id : ids) {
      records.erase(id);
      discarded.push_back(id);
    }
  }
  Result<Manifest> DoReadManifest(const std::string& name) override {
    const auto found = manifests.find(name);
    if (found == manifests.end()) return Status::NotFound(name);
    return found->second;
  }
  Result<std::vector<ManifestSummary>> DoListManifests() override {
    std::vector<ManifestSummary> summaries;
    for (const auto& [name, manifest] : manifests) {
      summaries.push_back({.name = name,
                           .created_ns = manifest.created_ns,
                           .cached_tokens = manifest.cached_tokens,
                           .blocks = manifest.blocks.size(),
                           .stored_bytes = manifest.stored_bytes(),
                           .model_name = manifest.model_name,
                           .status = Status::Ok()});
    }
    return summaries;
  }
  Status DoRemoveManifest(const std::string& name) override {
    return manifests.erase(name) == 1 ? Status::Ok() : Status::NotFound(name);
  }
  Result<std::vector<StoredRecord>> DoListRecords() override { return std::vector<StoredRecord>(); }
  Result<Leftovers> DoListLeftovers(RecordNamer) override { return leftovers; }
  Result<RecordLocation> DoLocate(const RecordId&, uint64_t place) override {
    return RecordLocation{"scripted", place, 0};
  }
  StoreInfo DoInfo() const override {
    StoreInfo info;
    info.kind = "scripted";
    info.uuid = uuid;
    info.asynchronous = asynchronous;
    return info;
  }

 private:
  void Complete(StoreRequest& request) {
    if (request.op == StoreRequest::Op::kPut) {
      request.place = records.size();
      records[request.id].assign(request.record.begin(), request.record.end());
    } else if (const auto found = records.find(request.id); found != records.end()) {
      std::copy(found->second.begin(), found->second.end(), request.record.begin());
    } else {
      request.status = Status::NotFound("no record " + request.id.ToString());
    }
    if (on_complete) on_complete(request);
  }

  std::deque<StoreRequest*> queue_;
};

}  // namespace kvbed
