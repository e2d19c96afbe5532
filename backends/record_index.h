// Which records a store holds, where each lies, and how many manifests name it.
// It doesn't know files or slots: a place is a number. Not thread-safe; its owner locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "offload/block_store.h"
#include "offload/manifest.h"
#include "offload/record_id.h"
#include "offload/status.h"

namespace kvbed {

struct IndexEntry {
  uint64_t place = 0;
  Digest128 digest;
  uint64_t record_bytes = 0;
  uint32_t manifests = 0;  // 0: put by this process and not committed
  bool durable = false;
  uint64_t put_number = 0;  // tells a record from an earlier one of the same id
};

struct UnflushedRecord {
  RecordId id;
  uint64_t put_number = 0;
};

// A record that left the index; its place can be used again.
struct FreedRecord {
  RecordId id;
  uint64_t place = 0;
  uint64_t record_bytes = 0;
};

class RecordIndex {
 public:
  const IndexEntry* Find(const RecordId& id) const;
  // How a put ends whose id is there already: ok and deduplicated, or invalid argument when the
  // record has other bytes. Nothing for a new id.
  std::optional<Status> Settle(StoreRequest& put) const;
  // The record that a get asks for: as Missing, or invalid argument when it has another size.
  Result<const IndexEntry*> FindFor(const StoreRequest& get) const;

  // A record that was put. The id must be new.
  void Insert(const RecordId& id, uint64_t place, const Digest128& digest, uint64_t record_bytes);

  // For building the index from manifests. Corruption when the manifest contradicts an earlier one
  // about a record; then nothing is added.
  Status AddManifest(const Manifest& manifest);

  // For an index built anew from manifests, to take the place of `from`: what was put and isn't
  // committed moves over, and what was committed and isn't any more counts as removed.
  void TakeUncommitted(RecordIndex& from);

  // For a commit: counts the manifest's records as named and sets the blocks' places. Not found
  // when one is missing; invalid argument when one has other bytes or isn't durable yet. Then
  // nothing is counted.
  Status Reference(Manifest& manifest);
  // Takes a Reference back, for a commit that failed. Records stay.
  void Unreference(const Manifest& manifest);
  // For a manifest that is gone: records that no other names leave the index.
  void Release(std::span<const RecordId> ids, std::vector<FreedRecord>& freed);
  // Records that no manifest names leave the index, others stay.
  void Discard(std::span<const RecordId> ids, std::vector<FreedRecord>& freed);

  // The records that were put since the last call: what a flush has to make durable.
  std::vector<UnflushedRecord> TakeUnflushed();
  void MarkDurable(std::span<const UnflushedRecord> records);

  // "no such record", or that it was removed meanwhile when it was.
  Status Missing(const RecordId& id) const;

  // What a put of other bytes under an existing id answers.
  static Status OtherBytes(const RecordId& id);

  // By id, those that a manifest names.
  std::vector<StoredRecord> ListCommitted() const;
  uint64_t committed_records() const { return committed_records_; }
  uint64_t committed_bytes() const { return committed_bytes_; }
  uint64_t uncommitted_bytes() const { return total_bytes_ - committed_bytes_; }
  // The size of every committed record; 0 when there is none or they differ.
  uint64_t CommonRecordBytes() const;

 private:
  void AddReference(IndexEntry& entry);
  bool DropReference(IndexEntry& entry);
  void Erase(const RecordId& id, std::vector<FreedRecord>& freed);
  void RememberRemoval(const RecordId& id);

  std::unordered_map<RecordId, IndexEntry, RecordIdHash> entries_;
  std::vector<UnflushedRecord> unflushed_;
  uint64_t puts_ = 0;
  // Hashes of ids that left, for the message only; forgotten when there are many.
  std::unordered_set<uint64_t> removed_;
  uint64_t committed_records_ = 0;
  uint64_t committed_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  std::map<uint64_t, uint64_t> committed_by_size_;  // records by their size
};

std::vector<RecordId> IdsOf(const Manifest& manifest);
std::vector<RecordId> IdsOf(const std::vector<FreedRecord>& freed);

}  // namespace kvbed
