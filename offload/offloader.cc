#include "offload/offloader.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "offload/clock.h"
#include "offload/damage.h"
#include "offload/record.h"

namespace kvbed {
namespace {

// Findings that are read once more and explained: the first ones, until the time is used up. The
// others are of the same kind more often than not.
constexpr size_t kExplainedFindingsMax = 4;
constexpr uint64_t kExplainNs = 500'000'000;

// Requests and the indices that are free to use again.
class RequestRing {
 public:
  explicit RequestRing(uint32_t size) : requests_(size), blocks_(size) {
    for (uint32_t i = size; i > 0; --i) free_.push_back(i - 1);
  }
  bool full() const { return free_.empty(); }
  StoreRequest* Take(uint64_t block) {
    const uint32_t index = free_.back();
    free_.pop_back();
    blocks_[index] = block;
    requests_[index] = StoreRequest{};
    return &requests_[index];
  }
  uint64_t BlockOf(const StoreRequest* request) const { return blocks_[IndexOf(request)]; }
  void Return(const StoreRequest* request) { free_.push_back(IndexOf(request)); }

 private:
  uint32_t IndexOf(const StoreRequest* request) const {
    return static_cast<uint32_t>(request - requests_.data());
  }
  std::vector<StoreRequest> requests_;
  std::vector<uint64_t> blocks_;
  std::vector<uint32_t> free_;
};

// One offload. Seals and submits blocks while earlier ones are being written.
class Writer {
 public:
  Writer(StoreChannel& channel, Sequence& sequence, const Digest128& store_uuid,
         const OffloadOptions& options, OffloadReport& report)
      : channel_(channel),
        sequence_(sequence),
        uuid_(store_uuid),
        options_(options),
        report_(report),
        ring_(channel.iodepth()) {}

  // Writes what the store lacks and fills `blocks` in. What was put is in written().
  Status Run(std::vector<ManifestBlock>& blocks) {
    start_ns_ = MonotonicNs();
    blocks.resize(sequence_.blocks());
    for (uint64_t block = 0; block < blocks.size() && failure_.ok(); ++block) {
      if (const auto stored = sequence_.StoredAs(block, uuid_)) {
        blocks[block] = {stored->id, stored->place, stored->digest, stored->tokens_used};
        continue;
      }
      if (ring_.full()) Collect(1, blocks);
      if (failure_.ok()) Put(block, blocks);
    }
    while (channel_.outstanding() > 0) Collect(channel_.outstanding(), blocks);
    return failure_;
  }

  const std::vector<RecordId>& written() const { return written_; }
  uint64_t start_ns() const { return start_ns_; }

 private:
  void Put(uint64_t block, std::vector<ManifestBlock>& blocks) {
    const MutableBytes record = sequence_.pool().record(sequence_.block_table()[block]);
    const RecordHeader header =
        sequence_.HeaderOf(block, NextGeneration(sequence_.LastGeneration(block)));
    sequence_.MarkSealed(block, header.id.generation);
    const uint64_t before_ns = MonotonicNs();
    const Digest128 digest = SealRecord(record, header);
    report_.hash_ns += MonotonicNs() - before_ns;
    blocks[block] = {header.id, 0, digest, header.tokens_used};
    StoreRequest* request = ring_.Take(block);
    request->op = StoreRequest::Op::kPut;
    request->id = header.id;
    request->digest = digest;
    request->record = record;
    channel_.Submit({&request, 1});
    written_.push_back(header.id);
  }

  void Collect(size_t min_complete, std::vector<ManifestBlock>& blocks) {
    completed_.clear();
    if (Status status = channel_.Reap(min_complete, completed_); !status.ok()) Fail(status);
    for (const StoreRequest* request : completed_) {
      const uint64_t block = ring_.BlockOf(request);
      if (request->status.ok()) {
        blocks[block].place = request->place;
        ++report_.blocks_written;
        report_.written_bytes += request->record.size();
        if (report_.first_done_ns == 0) report_.first_done_ns = request->completed_ns - start_ns_;
        report_.last_done_ns = std::max(report_.last_done_ns, request->completed_ns - start_ns_);
        if (options_.keep_latencies) {
          report_.latencies_ns.push_back(request->completed_ns - request->submitted_ns);
        }
      } else {
        Fail(request->status.WithContext(fmt::format("write block {}", block)));
      }
      ring_.Return(request);
    }
  }

  void Fail(const Status& status) {
    if (failure_.ok()) failure_ = status;
  }

  StoreChannel& channel_;
  Sequence& sequence_;
  const Digest128 uuid_;
  const OffloadOptions& options_;
  OffloadReport& report_;
  RequestRing ring_;
  std::vector<StoreRequest*> completed_;
  std::vector<RecordId> written_;
  Status failure_;
  uint64_t start_ns_ = 0;
};

// One restore. Each record has its own destination, so the queue is refilled before landed
// records are verified.
class Reader {
 public:
  Reader(BlockStore& store, StoreChannel& channel, const Manifest& manifest, BlockPool& pool,
         const RestoreOptions& options, RestoreReport& report)
      : store_(store),
        channel_(channel),
        manifest_(manifest),
        pool_(pool),
        options_(options),
        report_(report),
        asynchronous_(store.info().asynchronous),
        ring_(channel.iodepth()) {}

  ~Reader() {
    for (uint32_t record : records_) pool_.Release(record);
  }

  Status Run() {
    start_ns_ = MonotonicNs();
    const uint64_t blocks = manifest_.blocks.size();
    records_.reserve(blocks);
    for (uint64_t i = 0; i < blocks; ++i) {
      KVBED_ASSIGN_OR_RETURN(uint32_t record, pool_.Allocate(BlockPool::Contents::kAsItIs));
      records_.push_back(record);
    }
    uint64_t next = 0;
    const auto refill = [&] {
      submit_.clear();
      for (; next < blocks && !ring_.full(); ++next) submit_.push_back(Get(next));
      if (!submit_.empty()) channel_.Submit(submit_);
    };
    if (options_.skip_copy) {
      for (uint64_t i = 0; i < blocks; ++i) Verify(i);
      next = blocks;
    }
    if (next < blocks) {
      // Before the first submit: an engine may read inline.
      reading_since_ns_ = MonotonicNs();
      refill();
      NoteReading();
    }
    // One record is verified at a time, so that what lands meanwhile is soon replaced in the queue.
    while (channel_.outstanding() > 0 || !landed_.empty()) {
      if (channel_.outstanding() > 0) {
        if (!asynchronous_) reading_since_ns_ = MonotonicNs();
        completed_.clear();
        KVBED_RETURN_IF_ERROR(channel_.Reap(landed_.empty() ? 1 : 0, completed_));
        TakeCompleted();
        refill();
        NoteReading();
      }
      if (landed_.empty()) continue;
      const Landed one = std::move(landed_.front());
      landed_.pop_front();
      if (one.status.ok() || one.short_bytes) {
        Verify(one.block, one.short_bytes);
      } else {
        RecordFailure(one.block, one.status);
      }
    }
    report_.wall_ns = MonotonicNs() - start_ns_;
    return Status::Ok();
  }

  // Reads the first bad records once more and says what is proved about their damage. Not part of
  // the restore's times.
  void Explain() {
    std::sort(report_.findings.begin(), report_.findings.end(),
              [](const Finding& a, const Finding& b) { return a.first_token < b.first_token; });
    if (report_.findings.empty()) return;
    auto scratch = AlignedBuffer::Allocate(pool_.geometry().record_bytes());
    if (!scratch.ok()) return;
    const uint64_t start_ns = MonotonicNs();
    for (size_t i = 0; i < std::min(report_.findings.size(), kExplainedFindingsMax); ++i) {
      if (MonotonicNs() - start_ns > kExplainNs) return;
      Finding& finding = report_.findings[i];
      const uint64_t block = finding.id.key.block_index;
      const bool has_bytes = finding.check != Check::kShort && finding.check != Check::kMissing &&
                             finding.check != Check::kStore;
      if (has_bytes) {
        ExplainDamage(pool_.record(records_[block]), manifest_.ExpectedHeader(block),
                      manifest_.blocks[block].digest, finding);
      }
      finding.reread = ReadAgain(block, finding, scratch->bytes());
    }
  }

  // Moves the blocks before the first failure into the sequence.
  void Deliver(Sequence& sequence) {
    uint64_t good = manifest_.blocks.size();
    for (uint64_t block : bad_blocks_) good = std::min(good, block);
    for (uint64_t i = 0; i < good; ++i) {
      const ManifestBlock& block = manifest_.blocks[i];
      sequence.AdoptBlock(records_[i], {block.id, block.digest, block.place, block.tokens_used,
                                        manifest_.store_uuid});
    }
    records_.erase(records_.begin(), records_.begin() + static_cast<ptrdiff_t>(good));
    report_.blocks_restored = good;
  }

 private:
  struct Landed {
    uint64_t block;
    Status status;
    std::optional<uint64_t> short_bytes;
  };

  StoreRequest* Get(uint64_t block) {
    StoreRequest* request = ring_.Take(block);
    request->op = StoreRequest::Op::kGet;
    request->id = manifest_.blocks[block].id;
    request->digest = manifest_.blocks[block].digest;
    request->place = manifest_.blocks[block].place;
    request->record = pool_.record(records_[block]);
    return request;
  }

  // After a step of reading: with an engine that reads inline nothing goes on until the next one.
  void NoteReading() {
    const bool goes_on = asynchronous_ && channel_.outstanding() > 0;
    if (!goes_on) report_.read_ns += MonotonicNs() - reading_since_ns_;
  }

  // Copies completions out before their requests are used again.
  void TakeCompleted() {
    for (StoreRequest* request : completed_) {
      landed_.push_back({ring_.BlockOf(request), request->status, request->short_bytes});
      if (report_.first_done_ns == 0) report_.first_done_ns = request->completed_ns - start_ns_;
      report_.last_done_ns = std::max(report_.last_done_ns, request->completed_ns - start_ns_);
      if (options_.keep_latencies) {
        report_.latencies_ns.push_back(request->completed_ns - request->submitted_ns);
      }
      ring_.Return(request);
    }
  }

  void Verify(uint64_t block, std::optional<uint64_t> short_bytes = std::nullopt) {
    if (short_bytes) {
      Finding finding = EmptyFinding(block, Check::kShort);
      finding.expected = fmt::format("{} bytes", pool_.geometry().record_bytes());
      finding.actual = fmt::format("{} bytes", *short_bytes);
      finding.byte_offset = *short_bytes;
      finding.message = "the store's file ends before the record does";
      AddFinding(block, std::move(finding));
      return;
    }
    if (!options_.verify) return;
    const uint64_t before_ns = MonotonicNs();
    auto finding = VerifyRecord(pool_.record(records_[block]), manifest_.ExpectedHeader(block),
                                manifest_.blocks[block].digest);
    const uint64_t spent_ns = MonotonicNs() - before_ns;
    report_.verify_ns += spent_ns;
    if (asynchronous_ && channel_.outstanding() > 0) report_.overlap_ns += spent_ns;
    if (finding) AddFinding(block, std::move(*finding));
  }

  Reread ReadAgain(uint64_t block, const Finding& finding, MutableBytes scratch) {
    StoreRequest* request = Get(block);
    request->record = scratch;
    completed_.clear();
    channel_.Submit({&request, 1});
    const Status reaped = channel_.Reap(1, completed_);
    const Status status = reaped.ok() ? request->status : reaped;
    const std::optional<uint64_t> short_bytes = request->short_bytes;
    ring_.Return(request);
    if (!status.ok()) {
      const bool short_again =
          finding.check == Check::kShort && short_bytes && short_bytes == finding.byte_offset;
      const bool missing_again =
          finding.check == Check::kMissing && status.code() == StatusCode::kNotFound;
      const bool damaged_again =
          finding.check == Check::kStore && status.code() == StatusCode::kCorruption;
      return short_again || missing_again || damaged_again ? Reread::kSame : Reread::kFailed;
    }
    if (!VerifyRecord(scratch, manifest_.ExpectedHeader(block), manifest_.blocks[block].digest)) {
      return Reread::kGood;
    }
    const Bytes before = pool_.record(records_[block]);
    const bool same = std::equal(before.begin(), before.end(), scratch.begin());
    return same ? Reread::kSame : Reread::kDifferent;
  }

  Finding EmptyFinding(uint64_t block, Check check) const {
    const RecordHeader expected = manifest_.ExpectedHeader(block);
    Finding finding;
    finding.check = check;
    finding.id = expected.id;
    finding.first_token = expected.first_position;
    finding.token_count = expected.tokens_used;
    return finding;
  }

  void RecordFailure(uint64_t block, const Status& status) {
    const bool missing = status.code() == StatusCode::kNotFound;
    if (!missing && status.code() != StatusCode::kCorruption) {
      bad_blocks_.push_back(block);
      report_.failed_reads.push_back({block, status});
      return;
    }
    Finding finding = EmptyFinding(block, missing ? Check::kMissing : Check::kStore);
    finding.expected = "the record";
    finding.actual = missing ? "no such record" : "damaged, as the store says";
    finding.message = status.message();
    AddFinding(block, std::move(finding));
  }

  void AddFinding(uint64_t block, Finding finding) {
    bad_blocks_.push_back(block);
    if (auto location = store_.Locate(finding.id, manifest_.blocks[block].place); location.ok()) {
      finding.place = fmt::format("{} at {}", location->path, location->offset);
    }
    report_.findings.push_back(std::move(finding));
  }

  BlockStore& store_;
  StoreChannel& channel_;
  const Manifest& manifest_;
  BlockPool& pool_;
  const RestoreOptions& options_;
  RestoreReport& report_;
  const bool asynchronous_;
  RequestRing ring_;
  std::vector<uint32_t> records_;  // destinations by block
  std::vector<StoreRequest*> submit_;
  std::vector<StoreRequest*> completed_;
  std::deque<Landed> landed_;  // read and not yet verified
  std::vector<uint64_t> bad_blocks_;
  uint64_t start_ns_ = 0;
  uint64_t reading_since_ns_ = 0;
};

}  // namespace

Result<OffloadReport> Offload(BlockStore& store, StoreChannel& channel, Sequence& sequence,
                              Manifest& manifest, const OffloadOptions& options) {
  KVBED_CHECK(channel.outstanding() == 0);
  const Digest128 uuid = store.info().uuid;
  manifest.created_ns = UnixNs();
  manifest.store_uuid = uuid;
  manifest.rope_identity = sequence.identity().rope_identity;
  manifest.geometry = sequence.pool().geometry();
  manifest.sequence_id = sequence.identity().sequence_id;
  manifest.cached_tokens = sequence.cached_tokens();

  OffloadReport report;
  report.blocks = sequence.blocks();
  report.kv_bytes = sequence.cached_tokens() * manifest.geometry.kv_bytes_per_token();
  report.stored_bytes = report.blocks * manifest.geometry.record_bytes();
  Writer writer(channel, sequence, uuid, options, report);
  Status status = writer.Run(manifest.blocks);
  report.d0_ns = MonotonicNs() - writer.start_ns();
  if (status.ok()) {
    status = store.Flush();
    if (options.sync) report.d1_ns = MonotonicNs() - writer.start_ns();
  }
  if (status.ok()) {
    status = store.Commit(manifest, options.mode);
    report.d2_ns = MonotonicNs() - writer.start_ns();
  }
  if (!status.ok()) {
    store.Discard(writer.written());
    return status.WithContext(fmt::format("snapshot {} is not committed", manifest.name));
  }
  for (uint64_t i = 0; i < manifest.blocks.size(); ++i) {
    const ManifestBlock& block = manifest.blocks[i];
    sequence.MarkStored(i, {block.id, block.digest, block.place, block.tokens_used, uuid});
  }
  return report;
}

Result<RestoreReport> Restore(BlockStore& store, StoreChannel& channel, const Manifest& manifest,
                              Sequence& sequence, const RestoreOptions& options) {
  KVBED_CHECK(sequence.block_table().empty() && sequence.cached_tokens() == 0);
  KVBED_CHECK(channel.outstanding() == 0);
  if (sequence.pool().geometry() != manifest.geometry) {
    return Status::InvalidArgument(fmt::format(
        "snapshot {} has blocks of {} tokens and records of {} bytes, the pool {} and {}",
        manifest.name, manifest.geometry.block_tokens, manifest.geometry.record_bytes(),
        sequence.pool().geometry().block_tokens, sequence.pool().geometry().record_bytes()));
  }
  const SequenceIdentity identity = {manifest.model.Fingerprint(), manifest.rope_identity,
                                     manifest.sequence_id};
  if (sequence.identity() != identity) {
    const bool model = sequence.identity().model_fingerprint != identity.model_fingerprint;
    const bool rope = sequence.identity().rope_identity != identity.rope_identity;
    return Status::InvalidArgument(fmt::format("snapshot {} was made by another {}", manifest.name,
                                               model  ? "model"
                                               : rope ? "RoPE"
                                                      : "sequence"));
  }
  RestoreReport report;
  report.blocks = manifest.blocks.size();
  report.kv_bytes = manifest.cached_tokens * manifest.geometry.kv_bytes_per_token();
  report.stored_bytes = manifest.stored_bytes();
  Reader reader(store, channel, manifest, sequence.pool(), options, report);
  KVBED_RETURN_IF_ERROR(reader.Run());
  reader.Explain();
  reader.Deliver(sequence);
  std::sort(report.failed_reads.begin(), report.failed_reads.end(),
            [](const FailedRead& a, const FailedRead& b) { return a.block < b.block; });
  return report;
}

}  // namespace kvbed
