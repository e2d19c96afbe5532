// Snapshots for campaigns and tests of stores: a record's bytes follow from its id, so that
// whatever a store gives back can be judged without what was put. It knows stores only as a
// BlockStore.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "offload/aligned_buffer.h"
#include "offload/block_store.h"
#include "offload/finding.h"
#include "offload/manifest.h"
#include "offload/status.h"

namespace kvbed {

// Whose records have `record_bytes`, a multiple of 4096 above 4096.
KvGeometry SeededGeometry(uint64_t record_bytes);

// Fills a whole record with the KV of this id and seals it. Returns its digest.
Digest128 FillSeededRecord(const RecordId& id, MutableBytes record);
// Whether these are its very bytes.
bool IsSeededRecord(const RecordId& id, Bytes record);

// A snapshot of full blocks, whose generations are given block by block. Generation 0 is none.
Manifest SeededManifest(const std::string& name, uint64_t record_bytes, uint64_t sequence_id,
                        std::span<const uint64_t> generations);

std::vector<RecordId> BlockIds(const Manifest& manifest);
std::vector<uint64_t> BlockGenerations(const Manifest& manifest);
// Whether both name the same records with the same bytes.
bool SameRecords(const Manifest& a, const Manifest& b);

// Requests for some records with memory of their own: that of puts is filled, that of gets
// poisoned.
class RecordRequests {
 public:
  RecordRequests(StoreRequest::Op op, std::span<const ManifestBlock> blocks, uint64_t record_bytes);
  static RecordRequests Puts(const Manifest& manifest);
  static RecordRequests Gets(const Manifest& manifest);

  std::vector<StoreRequest*> pointers();
  StoreRequest& operator[](size_t index) { return requests_[index]; }
  const StoreRequest& operator[](size_t index) const { return requests_[index]; }
  size_t size() const { return requests_.size(); }
  MutableBytes memory() { return memory_.bytes(); }

  // Sends all at once and reaps until all are back. An I/O error when the channel breaks, or
  // doesn't hand each of them back once.
  Status RunOn(StoreChannel& channel);
  Status RunOn(BlockStore& store, uint32_t iodepth = 16);

  Status first_error() const;
  bool IsIntact(size_t index) const {
    return IsSeededRecord(requests_[index].id, requests_[index].record);
  }

 private:
  AlignedBuffer memory_;
  std::vector<StoreRequest> requests_;
};

// As the offloader does it: put, flush, commit; on failure what was put is discarded.
Status PutRecords(BlockStore& store, const Manifest& manifest);
Status TakeSnapshot(BlockStore& store, Manifest manifest, CommitMode mode = CommitMode::kNew);

// What a store gave for the records of a snapshot.
struct SnapshotReading {
  uint64_t right = 0;
  uint64_t missed = 0;             // not found
  uint64_t refused = 0;            // another error
  uint64_t wrong = 0;              // answered ok with other bytes
  Status first_error;              // of what was missed or refused
  std::optional<Finding> finding;  // the first of what was wrong

  bool whole() const { return missed + refused + wrong == 0; }
  void Add(const SnapshotReading& other);
  // "block 3: not found: ..." or what is wrong; empty when whole.
  std::string Problem() const;
};

// Judges gets that have completed: one of a block of `manifest`, or of all its blocks.
SnapshotReading JudgeGet(const Manifest& manifest, size_t block, const StoreRequest& get);
SnapshotReading JudgeGets(const Manifest& manifest, const RecordRequests& gets);
// Reads every record that `manifest` names. Its places are the store's.
SnapshotReading ReadRecords(BlockStore& store, const Manifest& manifest, uint32_t iodepth = 16);

}  // namespace kvbed
