#include "tools/bench/beside_offload.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "offload/check.h"
#include "offload/clock.h"
#include "offload/record.h"

namespace kvbed {
namespace {

// How late a stop is noticed while nothing is due.
constexpr uint64_t kSleepNs = 1'000'000;

}  // namespace

// Requests of one channel: at most its iodepth are out.
class BesideOffload::Puts {
 public:
  Puts(StoreChannel& channel, Manifest& manifest, std::atomic<uint64_t>& completed_bytes)
      : channel_(channel),
        manifest_(manifest),
        completed_bytes_(completed_bytes),
        requests_(channel.iodepth()),
        blocks_(channel.iodepth()) {
    for (size_t i = 0; i < requests_.size(); ++i) free_.push_back(i);
  }

  Status Put(uint64_t block, const RecordId& id, const Digest128& digest, MutableBytes record) {
    KVBED_RETURN_IF_ERROR(Collect(free_.empty() ? 1 : 0));
    const size_t at = free_.back();
    free_.pop_back();
    blocks_[at] = block;
    requests_[at] = StoreRequest{};
    StoreRequest* request = &requests_[at];
    request->op = StoreRequest::Op::kPut;
    request->id = id;
    request->digest = digest;
    request->record = record;
    written_.push_back(id);
    channel_.Submit({&request, 1});
    return Status::Ok();
  }
  // Until none is out.
  Status Finish() {
    Status first;
    while (channel_.outstanding() > 0) {
      Status status = Collect(channel_.outstanding());
      if (first.ok()) first = std::move(status);
    }
    return first;
  }
  const std::vector<RecordId>& written() const { return written_; }

 private:
  Status Collect(size_t min_complete) {
    completed_.clear();
    Status first = channel_.Reap(min_complete, completed_);
    for (const StoreRequest* request : completed_) {
      const auto at = static_cast<size_t>(request - requests_.data());
      manifest_.blocks[blocks_[at]].place = request->place;
      if (request->status.ok()) {
        completed_bytes_ += request->record.size();
      } else if (first.ok()) {
        first = request->status;
      }
      free_.push_back(at);
    }
    return first;
  }

  StoreChannel& channel_;
  Manifest& manifest_;
  std::atomic<uint64_t>& completed_bytes_;
  std::vector<StoreRequest> requests_;
  std::vector<uint64_t> blocks_;  // of each request
  std::vector<size_t> free_;
  std::vector<StoreRequest*> completed_;
  std::vector<RecordId> written_;
};

std::unique_ptr<BesideOffload> BesideOffload::Start(BlockStore& store, Sequence& sequence,
                                                    const Manifest& manifest,
                                                    const BesideOptions& options) {
  KVBED_CHECK(options.gb_per_s > 0 && sequence.blocks() > 0);
  std::unique_ptr<BesideOffload> offload(new BesideOffload(store, sequence, manifest, options));
  offload->thread_ = std::thread([beside = offload.get()] {
    beside->status_ = beside->Run();
    beside->begun_ = true;
    beside->begun_.notify_all();
  });
  offload->begun_.wait(false);
  return offload;
}

BesideOffload::BesideOffload(BlockStore& store, Sequence& sequence, const Manifest& manifest,
                             const BesideOptions& options)
    : store_(store),
      sequence_(sequence),
      manifest_(manifest),
      options_(options),
      start_ns_(MonotonicNs()) {}

BesideOffload::~BesideOffload() {
  if (thread_.joinable()) Stop().status().IgnoreError();
}

Result<BesideOffload::Report> BesideOffload::Stop() {
  Report report;
  report.bytes = completed_bytes_;
  report.ns = MonotonicNs() - start_ns_;
  stop_ = true;
  thread_.join();
  KVBED_RETURN_IF_ERROR(status_);
  return report;
}

Status BesideOffload::Run() {
  KVBED_ASSIGN_OR_RETURN(
      StoreChannel channel,
      store_.OpenChannel({.iodepth = options_.iodepth, .memory = sequence_.pool().memory()}));
  Status status;
  while (!stop_ && status.ok()) status = OneSnapshot(channel);
  const Status removed = store_.RemoveManifest(options_.snapshot);
  if (status.ok() && removed.code() != StatusCode::kNotFound) return removed;
  return status;
}

// The one before stays until this one's first record is due.
Status BesideOffload::OneSnapshot(StoreChannel& channel) {
  if (!WaitUntilDue()) return Status::Ok();
  const Status removed = store_.RemoveManifest(options_.snapshot);
  if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  Manifest manifest = manifest_;
  manifest.name = options_.snapshot;
  manifest.created_ns = UnixNs();
  manifest.store_uuid = store_.info().uuid;
  manifest.rope_identity = sequence_.identity().rope_identity;
  manifest.geometry = sequence_.pool().geometry();
  manifest.sequence_id = sequence_.identity().sequence_id;
  manifest.cached_tokens = sequence_.cached_tokens();
  manifest.blocks.resize(sequence_.blocks());
  Puts puts(channel, manifest, completed_bytes_);
  const auto whole = PutBlocks(puts, manifest);
  Status status = puts.Finish();
  if (!whole.ok()) status = whole.status();
  if (status.ok() && *whole) {
    status = store_.Flush();
    if (status.ok()) status = store_.Commit(manifest, CommitMode::kNew);
    if (status.ok()) return status;
  }
  store_.Discard(puts.written());
  return status;
}

Result<bool> BesideOffload::PutBlocks(Puts& puts, Manifest& manifest) {
  for (uint64_t block = 0; block < manifest.blocks.size(); ++block) {
    if (!WaitUntilDue()) return false;
    const MutableBytes record = sequence_.pool().record(sequence_.block_table()[block]);
    // Each time another id: a store keeps one record of an id.
    const RecordHeader header =
        sequence_.HeaderOf(block, NextGeneration(sequence_.LastGeneration(block)));
    sequence_.MarkSealed(block, header.id.generation);
    const Digest128 digest = SealRecord(record, header);
    manifest.blocks[block] = {header.id, 0, digest, header.tokens_used};
    KVBED_RETURN_IF_ERROR(puts.Put(block, header.id, digest, record));
    due_bytes_ += record.size();
    begun_ = true;
    begun_.notify_all();
  }
  return true;
}

// The next record is due when the bytes before it take that long at the rate. A commit that took
// long is made up for.
bool BesideOffload::WaitUntilDue() const {
  // GB/s and bytes per ns are the same number.
  const auto due_ns =
      start_ns_ + static_cast<uint64_t>(static_cast<double>(due_bytes_) / options_.gb_per_s);
  for (uint64_t now_ns = MonotonicNs(); now_ns < due_ns && !stop_; now_ns = MonotonicNs()) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(due_ns - now_ns, kSleepNs)));
  }
  return !stop_;
}

}  // namespace kvbed
