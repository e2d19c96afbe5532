#include "verify/seeded_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "offload/bytes.h"
#include "offload/check.h"
#include "offload/record.h"

namespace kvbed {
namespace {

constexpr uint32_t kSeededBlockTokens = 16;

RecordHeader SeededHeader(const RecordId& id, uint64_t record_bytes) {
  return {.id = id,
          .geometry = SeededGeometry(record_bytes),
          .tokens_used = kSeededBlockTokens,
          .first_position = id.key.block_index * kSeededBlockTokens};
}

Finding WrongBytes(const Manifest& manifest, size_t block, const StoreRequest& get) {
  auto finding =
      VerifyRecord(get.record, manifest.ExpectedHeader(block), manifest.blocks[block].digest);
  if (finding) return *finding;
  // Every byte of a record is covered, so only its sealing can have been other.
  Finding other;
  other.check = Check::kManifest;
  other.id = get.id;
  other.message = fmt::format("{}: other bytes than were put", get.id.ToString());
  return other;
}

}  // namespace

KvGeometry SeededGeometry(uint64_t record_bytes) {
  KVBED_CHECK(record_bytes > kPageBytes && record_bytes % kPageBytes == 0);
  // K and V of a layer fill a page.
  return {.layers = static_cast<uint32_t>(record_bytes / kPageBytes - 1),
          .kv_heads = 1,
          .head_dim = 64,
          .block_tokens = kSeededBlockTokens};
}

Digest128 FillSeededRecord(const RecordId& id, MutableBytes record) {
  uint64_t state = RecordIdHash()(id);
  for (size_t i = kPageBytes; i < record.size(); i += 8) {
    // SplitMix64 (Steele, Lea and Flood 2014).
    uint64_t word = state += 0x9E3779B97F4A7C15;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9;
    word = (word ^ word >> 27) * 0x94D049BB133111EB;
    StoreLe<uint64_t>(record, i, word ^ word >> 31);
  }
  return SealRecord(record, SeededHeader(id, record.size()));
}

bool IsSeededRecord(const RecordId& id, Bytes record) {
  auto expected = AlignedBuffer::Allocate(record.size()).value();
  FillSeededRecord(id, expected.bytes());
  return std::equal(record.begin(), record.end(), expected.bytes().begin());
}

Manifest SeededManifest(const std::string& name, uint64_t record_bytes, uint64_t sequence_id,
                        std::span<const uint64_t> generations) {
  Manifest manifest;
  manifest.name = name;
  manifest.created_ns = 1;
  manifest.model_name = "seeded";
  manifest.geometry = SeededGeometry(record_bytes);
  manifest.sequence_id = sequence_id;
  manifest.cached_tokens = generations.size() * kSeededBlockTokens;
  manifest.token_ids.assign(manifest.cached_tokens, 7);
  AlignedBuffer scratch = AlignedBuffer::Allocate(record_bytes).value();
  for (uint64_t i = 0; i < generations.size(); ++i) {
    const RecordId id{{manifest.model.Fingerprint(), sequence_id, i}, generations[i]};
    manifest.blocks.push_back({.id = id,
                               .digest = FillSeededRecord(id, scratch.bytes()),
                               .tokens_used = kSeededBlockTokens});
  }
  return manifest;
}

std::vector<RecordId> BlockIds(const Manifest& manifest) {
  std::vector<RecordId> ids;
  for (const ManifestBlock& block : manifest.blocks) ids.push_back(block.id);
  return ids;
}

std::vector<uint64_t> BlockGenerations(const Manifest& manifest) {
  std::vector<uint64_t> generations;
  for (const ManifestBlock& block : manifest.blocks) generations.push_back(block.id.generation);
  return generations;
}

bool SameRecords(const Manifest& a, const Manifest& b) {
  return std::equal(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(),
                    [](const ManifestBlock& one, const ManifestBlock& other) {
                      return one.id == other.id && one.digest == other.digest;
                    });
}

RecordRequests::RecordRequests(StoreRequest::Op op, std::span<const ManifestBlock> blocks,
                               uint64_t record_bytes)
    : memory_(AlignedBuffer::Allocate(std::max<uint64_t>(1, blocks.size()) * record_bytes).value()),
      requests_(blocks.size()) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    StoreRequest& request = requests_[i];
    request.op = op;
    request.id = blocks[i].id;
    request.digest = blocks[i].digest;
    request.place = blocks[i].place;
    request.record = memory_.bytes().subspan(i * record_bytes, record_bytes);
    if (op == StoreRequest::Op::kPut) {
      FillSeededRecord(request.id, request.record);
    } else {
      std::fill(request.record.begin(), request.record.end(), kPoisonByte);
    }
  }
}

std::vector<StoreRequest*> RecordRequests::pointers() {
  std::vector<StoreRequest*> pointers;
  for (StoreRequest& request : requests_) pointers.push_back(&request);
  return pointers;
}

Status RecordRequests::RunOn(StoreChannel& channel) {
  std::vector<StoreRequest*> wanted = pointers();
  channel.Submit(wanted);
  std::vector<StoreRequest*> completed;
  Status status;
  while (channel.outstanding() > 0) {
    if (Status reaped = channel.Reap(1, completed); !reaped.ok()) status = reaped;
  }
  std::sort(completed.begin(), completed.end());
  std::sort(wanted.begin(), wanted.end());
  if (completed == wanted) return status;
  return Status::IoError(fmt::format("the channel didn't hand back each of {} requests once: {}",
                                     wanted.size(), completed.size()));
}

Status RecordRequests::RunOn(BlockStore& store, uint32_t iodepth) {
  KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                         store.OpenChannel({.iodepth = iodepth, .memory = memory()}));
  return RunOn(channel);
}

Status RecordRequests::first_error() const {
  for (const StoreRequest& request : requests_) KVBED_RETURN_IF_ERROR(request.status);
  return Status::Ok();
}

RecordRequests RecordRequests::Puts(const Manifest& manifest) {
  return {StoreRequest::Op::kPut, manifest.blocks, manifest.geometry.record_bytes()};
}
RecordRequests RecordRequests::Gets(const Manifest& manifest) {
  return {StoreRequest::Op::kGet, manifest.blocks, manifest.geometry.record_bytes()};
}

Status PutRecords(BlockStore& store, const Manifest& manifest) {
  KVBED_ASSIGN_OR_RETURN(StoreChannel channel, store.OpenChannel({}));
  RecordRequests puts = RecordRequests::Puts(manifest);
  KVBED_RETURN_IF_ERROR(puts.RunOn(channel));
  return puts.first_error();
}

Status TakeSnapshot(BlockStore& store, Manifest manifest, CommitMode mode) {
  Status status = PutRecords(store, manifest);
  if (status.ok()) status = store.Flush();
  if (status.ok()) status = store.Commit(manifest, mode);
  if (!status.ok()) store.Discard(BlockIds(manifest));
  return status;
}

void SnapshotReading::Add(const SnapshotReading& other) {
  right += other.right;
  missed += other.missed;
  refused += other.refused;
  wrong += other.wrong;
  if (first_error.ok()) first_error = other.first_error;
  if (!finding) finding = other.finding;
}

std::string SnapshotReading::Problem() const {
  if (finding) return finding->message;
  return first_error.ok() ? std::string() : first_error.ToString();
}

SnapshotReading JudgeGet(const Manifest& manifest, size_t block, const StoreRequest& get) {
  SnapshotReading reading;
  if (get.status.ok() && IsSeededRecord(get.id, get.record)) {
    reading.right = 1;
  } else if (get.status.ok()) {
    reading.wrong = 1;
    reading.finding = WrongBytes(manifest, block, get);
  } else {
    (get.status.code() == StatusCode::kNotFound ? reading.missed : reading.refused) = 1;
    reading.first_error = get.status.WithContext(fmt::format("block {}", block));
  }
  return reading;
}

SnapshotReading JudgeGets(const Manifest& manifest, const RecordRequests& gets) {
  KVBED_CHECK(gets.size() == manifest.blocks.size());
  SnapshotReading reading;
  for (size_t i = 0; i < gets.size(); ++i) reading.Add(JudgeGet(manifest, i, gets[i]));
  return reading;
}

SnapshotReading ReadRecords(BlockStore& store, const Manifest& manifest, uint32_t iodepth) {
  RecordRequests gets = RecordRequests::Gets(manifest);
  if (Status status = gets.RunOn(store, iodepth); !status.ok()) {
    SnapshotReading broken;
    broken.refused = gets.size();
    broken.first_error = status;
    return broken;
  }
  return JudgeGets(manifest, gets);
}

}  // namespace kvbed
