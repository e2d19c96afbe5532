// Records, manifests and whole snapshots for tests of stores. A record's bytes follow from its id,
// so that what a store gives back can always be checked. It doesn't know any store.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "offload/aligned_buffer.h"
#include "offload/block_store.h"
#include "offload/manifest.h"

namespace kvbed {

inline constexpr uint64_t kSmallRecord = 8192;

// A geometry whose records have `record_bytes`, a multiple of 4096 above 4096.
inline KvGeometry GeometryOf(uint64_t record_bytes) {
  const auto layers = static_cast<uint32_t>(record_bytes / kPageBytes - 1);
  return {.layers = layers, .kv_heads = 1, .head_dim = 64, .block_tokens = 16};
}

inline void FillRecord(const RecordId& id, MutableBytes record) {
  std::mt19937_64 random(RecordIdHash()(id));
  for (size_t i = 0; i + 8 <= record.size(); i += 8) StoreLe<uint64_t>(record, i, random());
}

inline Digest128 DigestOf(const RecordId& id) {
  std::array<std::byte, kRecordIdBytes> encoded;
  id.Encode(encoded);
  return Xxh3_128(encoded);
}

// A snapshot of `blocks` full blocks. `generation` is that of every block.
inline Manifest MakeManifest(const std::string& name, uint64_t record_bytes, uint64_t blocks,
                             uint64_t sequence_id = 1, uint64_t generation = 1) {
  Manifest manifest;
  manifest.name = name;
  manifest.created_ns = 1;
  manifest.model_name = "test";
  manifest.geometry = GeometryOf(record_bytes);
  manifest.sequence_id = sequence_id;
  manifest.cached_tokens = blocks * manifest.geometry.block_tokens;
  manifest.token_ids.assign(manifest.cached_tokens, 7);
  for (uint64_t i = 0; i < blocks; ++i) {
    const RecordId id{{manifest.model.Fingerprint(), sequence_id, i}, generation};
    manifest.blocks.push_back({.id = id, .digest = DigestOf(id), .tokens_used = 16});
  }
  return manifest;
}

// `manifest` after its sequence grew: the first `kept` blocks as they were, new ones up to
// `blocks`.
inline Manifest Grown(const Manifest& manifest, const std::string& name, uint64_t kept,
                      uint64_t blocks) {
  const uint64_t generation = manifest.blocks.back().id.generation + 1;
  Manifest grown = MakeManifest(name, manifest.geometry.record_bytes(), blocks,
                                manifest.sequence_id, generation);
  grown.created_ns = manifest.created_ns + 1;
  std::copy_n(manifest.blocks.begin(), kept, grown.blocks.begin());
  return grown;
}

inline std::vector<RecordId> BlockIds(const Manifest& manifest) {
  std::vector<RecordId> ids;
  for (const ManifestBlock& block : manifest.blocks) ids.push_back(block.id);
  return ids;
}

// Requests for some records with memory of their own, and a channel to send them through.
class TestRequests {
 public:
  TestRequests(StoreRequest::Op op, const std::vector<ManifestBlock>& blocks, uint64_t record_bytes)
      : memory_(
            AlignedBuffer::Allocate(std::max<uint64_t>(1, blocks.size()) * record_bytes).value()),
        requests_(blocks.size()) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      StoreRequest& request = requests_[i];
      request.op = op;
      request.id = blocks[i].id;
      request.digest = blocks[i].digest;
      request.place = blocks[i].place;
      request.record = memory_.bytes().subspan(i * record_bytes, record_bytes);
      if (op == StoreRequest::Op::kPut) FillRecord(request.id, request.record);
    }
  }

  std::vector<StoreRequest*> pointers() {
    std::vector<StoreRequest*> pointers;
    for (StoreRequest& request : requests_) pointers.push_back(&request);
    return pointers;
  }
  StoreRequest& operator[](size_t index) { return requests_[index]; }
  size_t size() const { return requests_.size(); }
  MutableBytes memory() { return memory_.bytes(); }

  // Sends all at once and reaps until all are back, each once.
  void RunOn(StoreChannel& channel) {
    channel.Submit(pointers());
    std::vector<StoreRequest*> completed;
    while (channel.outstanding() > 0) channel.Reap(1, completed).IgnoreError();
    std::sort(completed.begin(), completed.end());
    EXPECT_EQ(completed, pointers());
  }
  void RunOn(BlockStore& store, uint32_t iodepth = 16) {
    auto channel = store.OpenChannel({.iodepth = iodepth, .memory = memory()});
    ASSERT_TRUE(channel.ok()) << channel.status().ToString();
    RunOn(*channel);
  }

  Status first_error() const {
    for (const StoreRequest& request : requests_) KVBED_RETURN_IF_ERROR(request.status);
    return Status::Ok();
  }
  bool IsIntact(size_t index) const {
    std::vector<std::byte> expected(requests_[index].record.size());
    FillRecord(requests_[index].id, expected);
    return std::equal(expected.begin(), expected.end(), requests_[index].record.begin());
  }

 private:
  AlignedBuffer memory_;
  std::vector<StoreRequest> requests_;
};

inline TestRequests PutsOf(const Manifest& manifest) {
  return {StoreRequest::Op::kPut, manifest.blocks, manifest.geometry.record_bytes()};
}
inline TestRequests GetsOf(const Manifest& manifest) {
  return {StoreRequest::Op::kGet, manifest.blocks, manifest.geometry.record_bytes()};
}

inline Status PutAll(BlockStore& store, const Manifest& manifest) {
  auto channel = store.OpenChannel({});
  if (!channel.ok()) return channel.status();
  TestRequests puts = PutsOf(manifest);
  puts.RunOn(*channel);
  return puts.first_error();
}

// As the offloader does it: put, flush, commit; on failure what was put is discarded.
inline Status TakeSnapshot(BlockStore& store, Manifest manifest,
                           CommitMode mode = CommitMode::kNew) {
  Status status = PutAll(store, manifest);
  if (status.ok()) status = store.Flush();
  if (status.ok()) status = store.Commit(manifest, mode);
  if (!status.ok()) store.Discard(BlockIds(manifest));
  return status;
}

// Whether the store has this very snapshot: its manifest, and every record's bytes.
inline ::testing::AssertionResult IsWhole(BlockStore& store, const Manifest& expected) {
  const auto manifest = store.ReadManifest(expected.name);
  if (!manifest.ok()) return ::testing::AssertionFailure() << manifest.status().ToString();
  if (BlockIds(*manifest) != BlockIds(expected)) {
    return ::testing::AssertionFailure() << expected.name << " names other records";
  }
  TestRequests gets = GetsOf(*manifest);
  gets.RunOn(store);
  for (size_t i = 0; i < gets.size(); ++i) {
    if (!gets[i].status.ok()) {
      return ::testing::AssertionFailure() << "block " << i << ": " << gets[i].status.ToString();
    }
    if (!gets.IsIntact(i)) return ::testing::AssertionFailure() << "block " << i << " differs";
  }
  return ::testing::AssertionSuccess();
}

inline std::vector<std::string> SnapshotNames(BlockStore& store) {
  std::vector<std::string> names;
  const auto manifests = store.ListManifests();
  if (!manifests.ok()) return {manifests.status().ToString()};
  for (const ManifestSummary& summary : *manifests) names.push_back(summary.name);
  return names;
}

}  // namespace kvbed
