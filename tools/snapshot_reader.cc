#include "tools/snapshot_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "offload/damage.h"
#include "offload/record.h"
#include "tools/store_access.h"

namespace kvbed {

Result<SnapshotStore> OpenSnapshotStore(const StoreOptions& options) {
  KVBED_ASSIGN_OR_RETURN(const NamedStore named, NameStore(options));
  if (named.spec.kind == StoreKind::kMemory) {
    return Status::InvalidArgument("memory: holds nothing when the command starts: give slab:DIR");
  }
  KVBED_ASSIGN_OR_RETURN(auto store, OpenNamed(named, StoreAccess::kRead, 0));
  if (named.spec.snapshot.empty()) {
    return Status::InvalidArgument(
        fmt::format("{} names no snapshot: add #NAME; {}", options.spec, SnapshotNames(*store)));
  }
  return SnapshotStore{std::move(store), named.spec.snapshot, named.settings.iodepth};
}

SnapshotReader::SnapshotReader(std::unique_ptr<BlockStore> store, Manifest manifest,
                               AlignedBuffer memory, StoreChannel channel, uint64_t records_at_once)
    : store_(std::move(store)),
      manifest_(std::move(manifest)),
      memory_(std::move(memory)),
      channel_(std::move(channel)),
      records_at_once_(records_at_once) {}

Result<SnapshotReader> SnapshotReader::Open(SnapshotStore store, Manifest manifest,
                                            uint64_t memory_bytes) {
  const uint64_t record_bytes = manifest.geometry.record_bytes();
  const uint64_t records = std::clamp<uint64_t>(memory_bytes / record_bytes, 1,
                                                std::max<uint64_t>(1, manifest.blocks.size()));
  KVBED_ASSIGN_OR_RETURN(AlignedBuffer memory, AlignedBuffer::Allocate(records * record_bytes));
  KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                         store.store->OpenChannel({store.iodepth, memory.bytes()}));
  return SnapshotReader(std::move(store.store), std::move(manifest), std::move(memory),
                        std::move(channel), records);
}

Result<std::vector<ReadRecord>> SnapshotReader::ReadFrom(uint64_t block) {
  KVBED_CHECK(block < manifest_.blocks.size());
  const uint64_t count = std::min<uint64_t>(records_at_once_, manifest_.blocks.size() - block);
  const uint64_t record_bytes = manifest_.geometry.record_bytes();
  std::vector<StoreRequest> requests(count);
  std::vector<StoreRequest*> submitted, completed;
  for (uint64_t i = 0; i < count; ++i) {
    requests[i].op = StoreRequest::Op::kGet;
    requests[i].id = manifest_.blocks[block + i].id;
    requests[i].digest = manifest_.blocks[block + i].digest;
    requests[i].place = manifest_.blocks[block + i].place;
    requests[i].record = memory_.bytes().subspan(i * record_bytes, record_bytes);
    submitted.push_back(&requests[i]);
  }
  channel_.Submit(submitted);
  while (channel_.outstanding() > 0) KVBED_RETURN_IF_ERROR(channel_.Reap(1, completed));
  std::vector<ReadRecord> records;
  for (uint64_t i = 0; i < count; ++i) {
    KVBED_ASSIGN_OR_RETURN(ReadRecord record, Check(requests[i], block + i));
    records.push_back(std::move(record));
  }
  return records;
}

Result<ReadRecord> SnapshotReader::Check(const StoreRequest& request, uint64_t block) {
  const RecordHeader expected = manifest_.ExpectedHeader(block);
  const Digest128& digest = manifest_.blocks[block].digest;
  ReadRecord record{block, request.record, std::nullopt};
  if (request.status.ok()) {
    record.finding = VerifyRecord(record.bytes, expected, digest);
    if (record.finding) ExplainDamage(record.bytes, expected, digest, *record.finding);
  } else {
    const bool missing = request.status.code() == StatusCode::kNotFound;
    if (!missing && request.status.code() != StatusCode::kCorruption) {
      return request.status.WithContext(fmt::format("read block {}", block));
    }
    record.bytes = {};
    Finding finding;
    finding.check = request.short_bytes ? Check::kShort : missing ? Check::kMissing : Check::kStore;
    finding.id = expected.id;
    finding.first_token = expected.first_position;
    finding.token_count = expected.tokens_used;
    finding.byte_offset = request.short_bytes;
    finding.expected = fmt::format("{} bytes", manifest_.geometry.record_bytes());
    finding.actual = request.short_bytes ? fmt::format("{} bytes", *request.short_bytes)
                     : missing           ? "no such record"
                                         : "damaged, as the store says";
    finding.message = request.short_bytes ? "the store's file ends before the record does"
                                          : request.status.message();
    record.finding = std::move(finding);
  }
  if (record.finding) {
    const auto location = store_->Locate(expected.id, manifest_.blocks[block].place);
    if (location.ok()) {
      record.finding->place = fmt::format("{} at {}", location->path, location->offset);
    }
  }
  return record;
}

}  // namespace kvbed
