#include "offload/block_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "offload/aligned_buffer.h"
#include "offload/clock.h"

namespace kvbed {
namespace {

void CheckRequest(const StoreRequest& request) {
  KVBED_CHECK(request.record.size() > kPageBytes && request.record.size() % kPageBytes == 0);
  KVBED_CHECK(reinterpret_cast<uintptr_t>(request.record.data()) % kPageBytes == 0);
  KVBED_CHECK(request.id.generation != 0);
}

}  // namespace

StoreChannel::StoreChannel(BlockStore* store, uint32_t handle, uint32_t iodepth)
    : store_(store), handle_(handle), iodepth_(iodepth) {}

StoreChannel::StoreChannel(StoreChannel&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      handle_(other.handle_),
      iodepth_(other.iodepth_),
      outstanding_(std::exchange(other.outstanding_, 0)) {}

StoreChannel::~StoreChannel() {
  if (store_ == nullptr) return;
  std::vector<StoreRequest*> completed;
  while (outstanding_ > 0) {
    completed.clear();
    Reap(outstanding_, completed).IgnoreError();
  }
  store_->DoCloseChannel(handle_);
}

void StoreChannel::Submit(std::span<StoreRequest* const> requests) {
  const uint64_t now_ns = MonotonicNs();
  for (StoreRequest* request : requests) {
    CheckRequest(*request);
    request->status = Status::Ok();
    request->short_bytes.reset();
    request->deduplicated = false;
    request->submitted_ns = now_ns;
    request->completed_ns = 0;
  }
  outstanding_ += requests.size();
  store_->DoSubmit(handle_, requests);
}

Status StoreChannel::Reap(size_t min_complete, std::vector<StoreRequest*>& completed) {
  const size_t before = completed.size();
  Status status = store_->DoReap(handle_, std::min(min_complete, outstanding_), completed);
  const uint64_t now_ns = MonotonicNs();
  auto& counters = store_->counters_;
  for (size_t i = before; i < completed.size(); ++i) {
    StoreRequest& request = *completed[i];
    if (request.completed_ns == 0) request.completed_ns = now_ns;
    const bool put = request.op == StoreRequest::Op::kPut;
    ++(put ? counters.puts : counters.gets);
    if (!request.status.ok()) {
      ++(put ? counters.puts_failed : counters.gets_failed);
    } else if (request.deduplicated) {
      ++counters.puts_deduplicated;
    } else {
      (put ? counters.bytes_written : counters.bytes_read) += request.record.size();
    }
  }
  KVBED_CHECK(completed.size() - before <= outstanding_);
  outstanding_ -= completed.size() - before;
  KVBED_CHECK(status.ok() || outstanding_ == 0);
  return status;
}

Result<StoreChannel> BlockStore::OpenChannel(const ChannelOptions& options) {
  if (options.iodepth == 0 || options.iodepth > 4096) {
    return Status::InvalidArgument(fmt::format("iodepth {} is not 1 to 4096", options.iodepth));
  }
  KVBED_ASSIGN_OR_RETURN(uint32_t handle, DoOpenChannel(options));
  return StoreChannel(this, handle, options.iodepth);
}

Status BlockStore::Flush() {
  if (flush_failed_) {
    return Status::IoError(
        "an earlier flush failed, so the data since then count as lost: reopen the store");
  }
  ++counters_.flushes;
  Status status = DoFlush();
  if (!status.ok()) flush_failed_ = true;
  return status;
}

Status BlockStore::Commit(Manifest& manifest, CommitMode mode) {
  if (flush_failed_) {
    return Status::IoError(
        "commit refused: an earlier flush failed, so the data since then count as "
        "lost: reopen the store");
  }
  KVBED_RETURN_IF_ERROR(ValidateSnapshotName(manifest.name));
  KVBED_RETURN_IF_ERROR(ValidateManifest(manifest));
  ++counters_.commits;
  return DoCommit(manifest, mode);
}

void BlockStore::Discard(std::span<const RecordId> ids) { DoDiscard(ids); }

Result<Manifest> BlockStore::ReadManifest(const std::string& name) {
  KVBED_RETURN_IF_ERROR(ValidateSnapshotName(name));
  return DoReadManifest(name);
}

Result<std::vector<ManifestSummary>> BlockStore::ListManifests() { return DoListManifests(); }

Status BlockStore::RemoveManifest(const std::string& name) {
  KVBED_RETURN_IF_ERROR(ValidateSnapshotName(name));
  return DoRemoveManifest(name);
}

Result<std::vector<StoredRecord>> BlockStore::ListRecords() { return DoListRecords(); }

Result<Leftovers> BlockStore::ListLeftovers(RecordNamer namer) { return DoListLeftovers(namer); }

Result<RecordLocation> BlockStore::Locate(const RecordId& id, uint64_t place) {
  return DoLocate(id, place);
}

StoreCounters BlockStore::counters() const {
  StoreCounters out;
  out.puts = counters_.puts;
  out.puts_deduplicated = counters_.puts_deduplicated;
  out.puts_failed = counters_.puts_failed;
  out.gets = counters_.gets;
  out.gets_failed = counters_.gets_failed;
  out.bytes_written = counters_.bytes_written;
  out.bytes_read = counters_.bytes_read;
  out.flushes = counters_.flushes;
  out.commits = counters_.commits;
  return out;
}

}  // namespace kvbed
