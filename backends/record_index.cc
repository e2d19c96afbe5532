#include "backends/record_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvbed {
namespace {

constexpr size_t kRememberedRemovalsMax = size_t{1} << 20;

}  // namespace

std::vector<RecordId> IdsOf(const Manifest& manifest) {
  std::vector<RecordId> ids;
  ids.reserve(manifest.blocks.size());
  for (const ManifestBlock& block : manifest.blocks) ids.push_back(block.id);
  return ids;
}

std::vector<RecordId> IdsOf(const std::vector<FreedRecord>& freed) {
  std::vector<RecordId> ids;
  ids.reserve(freed.size());
  for (const FreedRecord& record : freed) ids.push_back(record.id);
  return ids;
}

const IndexEntry* RecordIndex::Find(const RecordId& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

std::optional<Status> RecordIndex::Settle(StoreRequest& put) const {
  const IndexEntry* entry = Find(put.id);
  if (entry == nullptr) return std::nullopt;
  if (entry->digest != put.digest) return OtherBytes(put.id);
  put.place = entry->place;
  put.deduplicated = true;
  return Status::Ok();
}

Result<const IndexEntry*> RecordIndex::FindFor(const StoreRequest& get) const {
  const IndexEntry* entry = Find(get.id);
  if (entry == nullptr) return Missing(get.id);
  if (entry->record_bytes == get.record.size()) return entry;
  return Status::InvalidArgument(fmt::format("the record of {} has {} bytes, asked for were {}",
                                             get.id.ToString(), entry->record_bytes,
                                             get.record.size()));
}

void RecordIndex::Insert(const RecordId& id, uint64_t place, const Digest128& digest,
                         uint64_t record_bytes) {
  const auto [entry, inserted] = entries_.try_emplace(id);
  KVBED_CHECK(inserted);
  entry->second = {
      .place = place, .digest = digest, .record_bytes = record_bytes, .put_number = ++puts_};
  unflushed_.push_back({id, puts_});
  total_bytes_ += record_bytes;
}

Status RecordIndex::AddManifest(const Manifest& manifest) {
  const uint64_t record_bytes = manifest.geometry.record_bytes();
  for (const ManifestBlock& block : manifest.blocks) {
    const IndexEntry* entry = Find(block.id);
    if (entry != nullptr && (entry->place != block.place || entry->digest != block.digest ||
                             entry->record_bytes != record_bytes)) {
      return Status::Corruption(
          fmt::format("snapshot {} names another place or other bytes for the record of {} than a "
                      "newer snapshot",
                      manifest.name, block.id.ToString()));
    }
  }
  for (const ManifestBlock& block : manifest.blocks) {
    const auto [entry, inserted] =
        entries_.try_emplace(block.id, IndexEntry{.place = block.place,
                                                  .digest = block.digest,
                                                  .record_bytes = record_bytes,
                                                  .durable = true});
    if (inserted) total_bytes_ += record_bytes;
    AddReference(entry->second);
  }
  return Status::Ok();
}

void RecordIndex::TakeUncommitted(RecordIndex& from) {
  unflushed_ = std::move(from.unflushed_);
  puts_ = from.puts_;
  removed_ = std::move(from.removed_);
  for (const auto& [id, entry] : from.entries_) {
    if (entries_.contains(id)) continue;
    if (entry.manifests > 0) {
      RememberRemoval(id);
      continue;
    }
    entries_.emplace(id, entry);
    total_bytes_ += entry.record_bytes;
  }
}

Status RecordIndex::Reference(Manifest& manifest) {
  std::vector<IndexEntry*> entries;
  entries.reserve(manifest.blocks.size());
  for (const ManifestBlock& block : manifest.blocks) {
    const auto found = entries_.find(block.id);
    if (found == entries_.end()) return Missing(block.id);
    IndexEntry* const entry = entries.emplace_back(&found->second);
    if (entry->digest != block.digest || entry->record_bytes != manifest.geometry.record_bytes()) {
      return OtherBytes(block.id);
    }
    if (!entry->durable) {
      return Status::InvalidArgument(
          fmt::format("the record of {} was not flushed", block.id.ToString()));
    }
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    manifest.blocks[i].place = entries[i]->place;
    AddReference(*entries[i]);
  }
  return Status::Ok();
}

void RecordIndex::Unreference(const Manifest& manifest) {
  for (const ManifestBlock& block : manifest.blocks) {
    const auto found = entries_.find(block.id);
    KVBED_CHECK(found != entries_.end());
    DropReference(found->second);
  }
}

void RecordIndex::Release(std::span<const RecordId> ids, std::vector<FreedRecord>& freed) {
  for (const RecordId& id : ids) {
    const auto found = entries_.find(id);
    KVBED_CHECK(found != entries_.end());
    if (DropReference(found->second)) Erase(id, freed);
  }
}

void RecordIndex::Discard(std::span<const RecordId> ids, std::vector<FreedRecord>& freed) {
  for (const RecordId& id : ids) {
    const IndexEntry* entry = Find(id);
    if (entry != nullptr && entry->manifests == 0) Erase(id, freed);
  }
}

std::vector<UnflushedRecord> RecordIndex::TakeUnflushed() { return std::exchange(unflushed_, {}); }

void RecordIndex::MarkDurable(std::span<const UnflushedRecord> records) {
  for (const UnflushedRecord& record : records) {
    const auto found = entries_.find(record.id);
    if (found == entries_.end() || found->second.put_number != record.put_number) continue;
    found->second.durable = true;
  }
}

Status RecordIndex::Missing(const RecordId& id) const {
  if (removed_.contains(RecordIdHash()(id))) {
    return Status::NotFound(fmt::format("the record of {} was removed meanwhile", id.ToString()));
  }
  return Status::NotFound(fmt::format("no record of {}", id.ToString()));
}

Status RecordIndex::OtherBytes(const RecordId& id) {
  return Status::InvalidArgument(
      fmt::format("the store has a record of {} with other bytes", id.ToString()));
}

uint64_t RecordIndex::CommonRecordBytes() const {
  return committed_by_size_.size() == 1 ? committed_by_size_.begin()->first : 0;
}

std::vector<StoredRecord> RecordIndex::ListCommitted() const {
  std::vector<StoredRecord> records;
  records.reserve(committed_records_);
  for (const auto& [id, entry] : entries_) {
    if (entry.manifests == 0) continue;
    records.push_back({.id = id,
                       .place = entry.place,
                       .digest = entry.digest,
                       .record_bytes = entry.record_bytes,
                       .manifests = entry.manifests});
  }
  std::sort(records.begin(), records.end(),
            [](const StoredRecord& a, const StoredRecord& b) { return a.id < b.id; });
  return records;
}

void RecordIndex::AddReference(IndexEntry& entry) {
  if (entry.manifests++ > 0) return;
  ++committed_records_;
  ++committed_by_size_[entry.record_bytes];
  committed_bytes_ += entry.record_bytes;
}

bool RecordIndex::DropReference(IndexEntry& entry) {
  KVBED_CHECK(entry.manifests > 0);
  if (--entry.manifests > 0) return false;
  --committed_records_;
  if (--committed_by_size_[entry.record_bytes] == 0) committed_by_size_.erase(entry.record_bytes);
  committed_bytes_ -= entry.record_bytes;
  return true;
}

void RecordIndex::Erase(const RecordId& id, std::vector<FreedRecord>& freed) {
  const auto found = entries_.find(id);
  freed.push_back({id, found->second.place, found->second.record_bytes});
  total_bytes_ -= found->second.record_bytes;
  entries_.erase(found);
  RememberRemoval(id);
}

void RecordIndex::RememberRemoval(const RecordId& id) {
  if (removed_.size() >= kRememberedRemovalsMax) removed_.clear();
  removed_.insert(RecordIdHash()(id));
}

}  // namespace kvbed
