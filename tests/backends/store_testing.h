// Seeded snapshots (verify/seeded_snapshot.h) for tests of stores, with expectations.
// It doesn't know any store.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "offload/block_store.h"
#include "offload/manifest.h"
#include "verify/seeded_snapshot.h"

namespace kvbed {

inline constexpr uint64_t kSmallRecord = 8192;

inline KvGeometry GeometryOf(uint64_t record_bytes) { return SeededGeometry(record_bytes); }
inline void FillRecord(const RecordId& id, MutableBytes record) { FillSeededRecord(id, record); }
inline Digest128 DigestOf(const RecordId& id, uint64_t record_bytes = kSmallRecord) {
  auto record = AlignedBuffer::Allocate(record_bytes).value();
  return FillSeededRecord(id, record.bytes());
}

// A snapshot of `blocks` full blocks. `generation` is that of every block.
inline Manifest MakeManifest(const std::string& name, uint64_t record_bytes, uint64_t blocks,
                             uint64_t sequence_id = 1, uint64_t generation = 1) {
  const std::vector<uint64_t> generations(blocks, generation);
  Manifest manifest = SeededManifest(name, record_bytes, sequence_id, generations);
  manifest.model_name = "test";
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

class TestRequests : public RecordRequests {
 public:
  using RecordRequests::RecordRequests;
  explicit TestRequests(RecordRequests requests) : RecordRequests(std::move(requests)) {}

  // Expects that each comes back once. A channel that broke shows in the requests' statuses.
  void RunOn(StoreChannel& channel) { Expect(RecordRequests::RunOn(channel)); }
  void RunOn(BlockStore& store, uint32_t iodepth = 16) {
    Expect(RecordRequests::RunOn(store, iodepth));
  }

 private:
  static void Expect(const Status& status) {
    EXPECT_EQ(status.message().find("each of"), std::string::npos) << status.ToString();
  }
};

inline TestRequests PutsOf(const Manifest& manifest) {
  return TestRequests(RecordRequests::Puts(manifest));
}
inline TestRequests GetsOf(const Manifest& manifest) {
  return TestRequests(RecordRequests::Gets(manifest));
}
inline Status PutAll(BlockStore& store, const Manifest& manifest) {
  return PutRecords(store, manifest);
}

// Whether the store has this very snapshot: its manifest, and every record's bytes.
inline ::testing::AssertionResult IsWhole(BlockStore& store, const Manifest& expected) {
  const auto manifest = store.ReadManifest(expected.name);
  if (!manifest.ok()) return ::testing::AssertionFailure() << manifest.status().ToString();
  if (!SameRecords(*manifest, expected)) {
    return ::testing::AssertionFailure() << expected.name << " names other records";
  }
  const SnapshotReading reading = ReadRecords(store, *manifest);
  if (reading.whole()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << reading.Problem();
}

inline std::vector<std::string> SnapshotNames(BlockStore& store) {
  std::vector<std::string> names;
  const auto manifests = store.ListManifests();
  if (!manifests.ok()) return {manifests.status().ToString()};
  for (const ManifestSummary& summary : *manifests) names.push_back(summary.name);
  return names;
}

}  // namespace kvbed
