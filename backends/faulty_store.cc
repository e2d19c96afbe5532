#include "backends/faulty_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "offload/clock.h"

namespace kvbed {
namespace {

bool IsError(FaultKind kind) {
  return kind == FaultKind::kEio || kind == FaultKind::kEnospc || kind == FaultKind::kEagain ||
         kind == FaultKind::kEintr;
}

Status ErrorOf(const RecordFault& fault, const StoreRequest& request) {
  const std::string message = fmt::format("{} the record of {}: injected {}",
                                          request.op == StoreRequest::Op::kPut ? "put" : "get",
                                          request.id.ToString(), FaultKindName(fault.kind));
  if (fault.kind == FaultKind::kEnospc) return Status::OutOfSpace(message);
  if (IsError(fault.kind)) return Status::IoError(message);
  return Status::NotFound(message);  // a lost write
}

// A request on its way through the store beneath.
struct Passage {
  StoreRequest inner;
  StoreRequest* outer = nullptr;
  std::optional<RecordFault> fault;
  std::vector<std::byte> unread;  // what a short get leaves in the buffer's end
  uint64_t due_ns = 0;
};

// What a landed get turns into.
void PlayOnGet(Passage& passage) {
  StoreRequest& request = *passage.outer;
  const RecordFault& fault = *passage.fault;
  const MutableBytes record = request.record;
  // Another record may be gone by now; its place then reads as never written.
  const bool other_read = fault.other && request.status.ok();
  if (fault.other && !other_read) request.status = Status::Ok();
  if (!request.status.ok()) return;
  switch (fault.kind) {
    case FaultKind::kBitFlip:
      record[fault.choice / 8] ^= std::byte{1} << static_cast<int>(fault.choice % 8);
      return;
    case FaultKind::kShortTransfer:
      std::copy(passage.unread.begin(), passage.unread.end(),
                record.begin() + static_cast<ptrdiff_t>(fault.amount));
      request.short_bytes = fault.amount;
      request.status = Status::Corruption(
          fmt::format("get the record of {}: injected short_transfer, {} of {} bytes",
                      request.id.ToString(), fault.amount, record.size()));
      return;
    case FaultKind::kTornWrite:
      std::fill(record.begin() + static_cast<ptrdiff_t>(fault.amount), record.end(), std::byte{0});
      return;
    case FaultKind::kStaleRecord:
    case FaultKind::kMisdirectedRead:
      if (!other_read) std::fill(record.begin(), record.end(), std::byte{0});
      return;
    default: return;
  }
}

class FaultyChannel {
 public:
  FaultyChannel(StoreChannel base, StoreFaults& faults) : base_(std::move(base)), faults_(faults) {}

  void Submit(std::span<StoreRequest* const> requests) {
    std::vector<StoreRequest*> inner;
    for (StoreRequest* request : requests) {
      if (Passage* passage = Begin(*request)) inner.push_back(&passage->inner);
    }
    if (!inner.empty()) base_.Submit(inner);
  }

  Status Reap(size_t min_complete, std::vector<StoreRequest*>& completed) {
    const size_t before = completed.size();
    while (true) {
      completed.insert(completed.end(), finished_.begin(), finished_.end());
      finished_.clear();
      const size_t done = completed.size() - before;
      const size_t missing = min_complete > done ? min_complete - done : 0;
      if (missing == 0 && base_.outstanding() == 0) return Status::Ok();
      reaped_.clear();
      const Status status = base_.Reap(std::min<size_t>(missing, 1), reaped_);
      for (StoreRequest* inner : reaped_) Land(*static_cast<Passage*>(inner->owner));
      HandOverDelayed(status, missing);
      if (!status.ok() || missing == 0) {
        completed.insert(completed.end(), finished_.begin(), finished_.end());
        finished_.clear();
        return status;
      }
    }
  }

 private:
  // Null when the request is done already.
  Passage* Begin(StoreRequest& request) {
    const bool put = request.op == StoreRequest::Op::kPut;
    auto fault = put ? faults_.OnPut(request.id, request.record.size())
                     : faults_.OnGet(request.id, request.record.size());
    const bool lost = fault && (fault->kind == FaultKind::kLostWrites ||
                                fault->kind == FaultKind::kReorderedWrites);
    if (fault && (IsError(fault->kind) || lost)) {
      request.status = ErrorOf(*fault, request);
      finished_.push_back(&request);
      return nullptr;
    }
    if (idle_.empty()) idle_.push_back(&passages_.emplace_back());
    Passage* const passage = idle_.back();
    idle_.pop_back();
    passage->outer = &request;
    passage->fault = std::move(fault);
    passage->inner = StoreRequest{.op = request.op,
                                  .id = request.id,
                                  .digest = request.digest,
                                  .record = request.record,
                                  .place = request.place,
                                  .status = {},
                                  .short_bytes = {},
                                  .owner = passage};
    if (passage->fault && passage->fault->other) passage->inner.id = *passage->fault->other;
    if (passage->fault && passage->fault->kind == FaultKind::kShortTransfer) {
      const Bytes end = request.record.subspan(passage->fault->amount);
      passage->unread.assign(end.begin(), end.end());
    }
    return passage;
  }

  void Land(Passage& passage) {
    StoreRequest& request = *passage.outer;
    request.status = std::move(passage.inner.status);
    request.short_bytes = passage.inner.short_bytes;
    request.deduplicated = passage.inner.deduplicated;
    request.submitted_ns = passage.inner.submitted_ns;
    request.completed_ns = passage.inner.completed_ns;
    if (request.op == StoreRequest::Op::kPut) {
      request.place = passage.inner.place;
    } else if (passage.fault) {
      PlayOnGet(passage);
    }
    if (passage.fault && passage.fault->kind == FaultKind::kDelay) {
      passage.due_ns = request.submitted_ns + passage.fault->amount * 1000;
      delayed_.push_back(&passage);
      return;
    }
    HandOver(passage);
  }

  void HandOver(Passage& passage) {
    finished_.push_back(passage.outer);
    idle_.push_back(&passage);
  }

  // Those that are due, and when nothing else can come, waits for the first; all of them when the
  // channel beneath is broken.
  void HandOverDelayed(const Status& status, size_t missing) {
    if (delayed_.empty()) return;
    const auto earlier = [](const Passage* a, const Passage* b) { return a->due_ns < b->due_ns; };
    std::stable_sort(delayed_.begin(), delayed_.end(), earlier);
    const bool waits = missing > finished_.size() && base_.outstanding() == 0;
    const uint64_t now_ns = MonotonicNs();
    if (waits && status.ok() && delayed_.front()->due_ns > now_ns) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(delayed_.front()->due_ns - now_ns));
    }
    const uint64_t then_ns = MonotonicNs();
    while (!delayed_.empty() && (!status.ok() || delayed_.front()->due_ns <= then_ns)) {
      delayed_.front()->outer->completed_ns = then_ns;
      HandOver(*delayed_.front());
      delayed_.pop_front();
    }
  }

  StoreChannel base_;
  StoreFaults& faults_;
  std::deque<Passage> passages_;
  std::vector<Passage*> idle_;
  std::deque<Passage*> delayed_;
  std::vector<StoreRequest*> finished_;
  std::vector<StoreRequest*> reaped_;
};

class FaultyStore final : public BlockStore {
 public:
  FaultyStore(std::unique_ptr<BlockStore> base, StoreFaults& faults)
      : base_(std::move(base)), faults_(faults) {
    const auto records = base_->ListRecords();
    if (!records.ok()) return;
    for (const StoredRecord& record : *records) faults_.Know(record.id, record.record_bytes);
  }

 protected:
  Result<uint32_t> DoOpenChannel(const ChannelOptions& options) override {
    KVBED_ASSIGN_OR_RETURN(StoreChannel channel, base_->OpenChannel(options));
    const std::lock_guard lock(mutex_);
    channels_.push_back(std::make_unique<FaultyChannel>(std::move(channel), faults_));
    return static_cast<uint32_t>(channels_.size() - 1);
  }
  void DoCloseChannel(uint32_t handle) override {
    std::unique_ptr<FaultyChannel> closing;
    const std::lock_guard lock(mutex_);
    closing = std::move(channels_[handle]);
  }
  void DoSubmit(uint32_t handle, std::span<StoreRequest* const> requests) override {
    Channel(handle).Submit(requests);
  }
  Status DoReap(uint32_t handle, size_t min_complete,
                std::vector<StoreRequest*>& completed) override {
    return Channel(handle).Reap(min_complete, completed);
  }
  Status DoFlush() override {
    KVBED_RETURN_IF_ERROR(faults_.OnChange(FaultTarget::kSync, "flush"));
    return base_->Flush();
  }
  Status DoCommit(Manifest& manifest, CommitMode mode) override {
    KVBED_RETURN_IF_ERROR(faults_.OnChange(FaultTarget::kRename, "commit"));
    return base_->Commit(manifest, mode);
  }
  void DoDiscard(std::span<const RecordId> ids) override { base_->Discard(ids); }
  Result<Manifest> DoReadManifest(const std::string& name) override {
    return base_->ReadManifest(name);
  }
  Result<std::vector<ManifestSummary>> DoListManifests() override { return base_->ListManifests(); }
  Status DoRemoveManifest(const std::string& name) override {
    KVBED_RETURN_IF_ERROR(faults_.OnChange(FaultTarget::kUnlink, "remove"));
    return base_->RemoveManifest(name);
  }
  Result<std::vector<StoredRecord>> DoListRecords() override { return base_->ListRecords(); }
  Result<Leftovers> DoListLeftovers(RecordNamer namer) override {
    return base_->ListLeftovers(namer);
  }
  Result<RecordLocation> DoLocate(const RecordId& id, uint64_t place) override {
    return base_->Locate(id, place);
  }
  StoreInfo DoInfo() const override { return base_->info(); }

 private:
  FaultyChannel& Channel(uint32_t handle) {
    const std::lock_guard lock(mutex_);
    return *channels_[handle];
  }

  std::unique_ptr<BlockStore> base_;
  StoreFaults& faults_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<FaultyChannel>> channels_;  // guarded by mutex_; null where closed
};

}  // namespace

std::unique_ptr<BlockStore> MakeFaultyStore(std::unique_ptr<BlockStore> base, StoreFaults& faults) {
  return std::make_unique<FaultyStore>(std::move(base), faults);
}

}  // namespace kvbed
