#include "offload/block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "offload/record.h"

namespace kvbed {

Result<std::unique_ptr<BlockPool>> BlockPool::Create(const KvGeometry& geometry, uint32_t records) {
  KVBED_RETURN_IF_ERROR(geometry.Validate());
  if (records == 0) return Status::InvalidArgument("a pool of 0 records can hold no token");
  auto memory = AlignedBuffer::Allocate(geometry.record_bytes() * records);
  if (!memory.ok()) {
    return memory.status().WithContext(
        fmt::format("pool of {} records of {} bytes", records, geometry.record_bytes()));
  }
  return std::unique_ptr<BlockPool>(new BlockPool(geometry, records, std::move(memory).value()));
}

BlockPool::BlockPool(const KvGeometry& geometry, uint32_t records, AlignedBuffer memory)
    : geometry_(geometry), records_(records), memory_(std::move(memory)), references_(records) {
  free_.reserve(records);
  // The lowest record is handed out first, so that a small run touches little memory.
  for (uint32_t i = records; i > 0; --i) free_.push_back(i - 1);
}

Result<uint32_t> BlockPool::Allocate(Contents contents) {
  uint32_t record = 0;
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      return Status::OutOfSpace(
          fmt::format("all {} records of the pool ({} bytes) are in use: a larger --pool-bytes, or "
                      "a shorter context, is needed",
                      records_, records_ * geometry_.record_bytes()));
    }
    record = free_.back();
    free_.pop_back();
    references_[record] = 1;
  }
  if (contents == Contents::kZeroed) {
    const MutableBytes bytes = this->record(record);
    std::memset(bytes.data(), 0, bytes.size());
  }
  return record;
}

void BlockPool::AddReference(uint32_t record) {
  const std::lock_guard lock(mutex_);
  KVBED_CHECK(record < records_ && references_[record] > 0);
  ++references_[record];
}

void BlockPool::Release(uint32_t record) {
  const std::lock_guard lock(mutex_);
  KVBED_CHECK(record < records_ && references_[record] > 0);
  if (--references_[record] == 0) free_.push_back(record);
}

void BlockPool::PoisonAll() {
  const std::lock_guard lock(mutex_);
  KVBED_CHECK(free_.size() == records_);
  std::memset(memory_.bytes().data(), std::to_integer<int>(kPoisonByte), memory_.size_bytes());
}

bool BlockPool::IsPoisoned(uint32_t record) const {
  const Bytes bytes = this->record(record);
  return bytes[0] == kPoisonByte &&
         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

uint32_t BlockPool::free_records() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(free_.size());
}

MutableBytes BlockPool::record(uint32_t index) {
  KVBED_CHECK(index < records_);
  return memory_.bytes().subspan(index * geometry_.record_bytes(), geometry_.record_bytes());
}

Bytes BlockPool::record(uint32_t index) const {
  KVBED_CHECK(index < records_);
  return memory_.bytes().subspan(index * geometry_.record_bytes(), geometry_.record_bytes());
}

MutableBytes BlockPool::payload(uint32_t index) {
  return record(index).subspan(kPageBytes, geometry_.payload_bytes());
}

}  // namespace kvbed
