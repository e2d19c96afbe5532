// The pool: a fixed set of aligned records in one allocation that sequences use as their KV cache.
// What attention reads is what a store writes. Any thread may allocate and release.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "offload/aligned_buffer.h"
#include "offload/bytes.h"
#include "offload/kv_geometry.h"
#include "offload/status.h"

namespace kvbed {

class BlockPool {
 public:
  // Out of space when the system refuses the memory; invalid argument for a bad geometry or 0
  // records.
  static Result<std::unique_ptr<BlockPool>> Create(const KvGeometry& geometry, uint32_t records);

  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  enum class Contents { kZeroed, kAsItIs };

  // A free record with one reference. kAsItIs is for a destination that is wholly overwritten.
  // Out of space when none is free; the message says how many there are and which option grows it.
  Result<uint32_t> Allocate(Contents contents);
  void AddReference(uint32_t record);
  // The last release makes the record free.
  void Release(uint32_t record);

  // Fills every record with kPoisonByte. None may be in use.
  void PoisonAll();
  bool IsPoisoned(uint32_t record) const;

  const KvGeometry& geometry() const { return geometry_; }
  uint32_t records() const { return records_; }
  uint32_t free_records() const;
  MutableBytes record(uint32_t index);
  Bytes record(uint32_t index) const;
  MutableBytes payload(uint32_t index);
  // All records, for registration with an I/O engine.
  MutableBytes memory() { return memory_.bytes(); }
  uint64_t HugePageBytes() const { return memory_.HugePageBackedBytes(); }

 private:
  BlockPool(const KvGeometry& geometry, uint32_t records, AlignedBuffer memory);

  const KvGeometry geometry_;
  const uint32_t records_;
  AlignedBuffer memory_;
  mutable std::mutex mutex_;
  std::vector<uint32_t> free_;        // guarded by mutex_; last in, first out
  std::vector<uint32_t> references_;  // guarded by mutex_
};

}  // namespace kvbed
