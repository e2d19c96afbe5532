#include "offload/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvbed {

Sequence::Sequence(BlockPool& pool, const SequenceIdentity& identity)
    : pool_(&pool), identity_(identity) {
  KVBED_CHECK(identity.sequence_id != 0);
}

Sequence::Sequence(Sequence&& other) noexcept
    : pool_(other.pool_),
      identity_(other.identity_),
      cached_tokens_(std::exchange(other.cached_tokens_, 0)),
      block_table_(std::exchange(other.block_table_, {})),
      stored_(std::exchange(other.stored_, {})),
      last_generations_(std::exchange(other.last_generations_, {})) {}

Sequence::~Sequence() {
  for (uint32_t record : block_table_) pool_->Release(record);
}

Status Sequence::Reserve(uint64_t tokens) {
  const size_t before = block_table_.size();
  const uint64_t wanted = pool_->geometry().BlocksFor(tokens);
  while (block_table_.size() < wanted) {
    auto record = pool_->Allocate(BlockPool::Contents::kZeroed);
    if (!record.ok()) {
      while (block_table_.size() > before) {
        pool_->Release(block_table_.back());
        block_table_.pop_back();
      }
      return record.status().WithContext(
          fmt::format("room for {} tokens in {} blocks", tokens, wanted));
    }
    block_table_.push_back(*record);
  }
  stored_.resize(block_table_.size());
  last_generations_.resize(block_table_.size());
  return Status::Ok();
}

void Sequence::Advance(uint64_t tokens) {
  cached_tokens_ += tokens;
  KVBED_CHECK(blocks() <= block_table_.size());
}

uint32_t Sequence::TokensInBlock(uint64_t block) const {
  const uint64_t block_tokens = pool_->geometry().block_tokens;
  const uint64_t first = block * block_tokens;
  return first >= cached_tokens_
             ? 0
             : static_cast<uint32_t>(std::min(block_tokens, cached_tokens_ - first));
}

RecordHeader Sequence::HeaderOf(uint64_t block, uint64_t generation) const {
  RecordHeader header;
  header.id.key.model_fingerprint = identity_.model_fingerprint;
  header.id.key.sequence_id = identity_.sequence_id;
  header.id.key.block_index = block;
  header.id.generation = generation;
  header.geometry = pool_->geometry();
  header.tokens_used = TokensInBlock(block);
  header.first_position = block * pool_->geometry().block_tokens;
  header.rope_identity = identity_.rope_identity;
  return header;
}

std::optional<StoredBlock> Sequence::StoredAs(uint64_t block, const Digest128& store_uuid) const {
  KVBED_CHECK(block < block_table_.size());
  const StoredBlock& stored = stored_[block];
  const bool current = stored.id.generation != 0 && stored.store_uuid == store_uuid &&
                       stored.tokens_used == TokensInBlock(block);
  return current ? std::optional(stored) : std::nullopt;
}

uint64_t Sequence::LastGeneration(uint64_t block) const {
  KVBED_CHECK(block < block_table_.size());
  return last_generations_[block];
}

void Sequence::MarkSealed(uint64_t block, uint64_t generation) {
  KVBED_CHECK(block < block_table_.size() && generation > last_generations_[block]);
  last_generations_[block] = generation;
}

void Sequence::MarkStored(uint64_t block, const StoredBlock& stored) {
  KVBED_CHECK(block < block_table_.size() && stored.tokens_used == TokensInBlock(block));
  stored_[block] = stored;
  last_generations_[block] = std::max(last_generations_[block], stored.id.generation);
}

void Sequence::AdoptBlock(uint32_t record, const StoredBlock& stored) {
  KVBED_CHECK(cached_tokens_ == block_table_.size() * pool_->geometry().block_tokens);
  KVBED_CHECK(stored.tokens_used >= 1 && stored.tokens_used <= pool_->geometry().block_tokens);
  block_table_.push_back(record);
  stored_.push_back(stored);
  last_generations_.push_back(stored.id.generation);
  cached_tokens_ += stored.tokens_used;
}

}  // namespace kvbed
