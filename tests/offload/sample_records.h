// Sealed records with seeded payloads for tests, and the ways to forge one: offsets are written out
// here as FORMAT.md has them, so that the format can't change unnoticed.
#pragma once

#include <random>

#include "offload/aligned_buffer.h"
#include "offload/bytes.h"
#include "offload/digest.h"
#include "offload/record.h"

namespace kvbed {

struct SampleRecord {
  AlignedBuffer memory;
  RecordHeader header;
  Digest128 digest;

  MutableBytes bytes() { return memory.bytes(); }
  MutableBytes payload() { return bytes().subspan(kPageBytes, header.geometry.payload_bytes()); }
  std::optional<Finding> Verify() { return VerifyRecord(bytes(), header, digest); }
};

inline KvGeometry TinyGeometry() {
  return {.layers = 2, .kv_heads = 2, .head_dim = 4, .dtype = DType::kBf16, .block_tokens = 5};
}

inline RecordHeader SampleHeader(const KvGeometry& geometry, uint32_t tokens_used) {
  RecordHeader header;
  header.id.key.model_fingerprint = Xxh3_128(AsBytes("a model"));
  header.id.key.sequence_id = 0x1122334455667788;
  header.id.key.block_index = 3;
  header.id.generation = 42;
  header.geometry = geometry;
  header.tokens_used = tokens_used;
  header.first_position = 3 * geometry.block_tokens;
  header.rope_identity = 0x99aabbccddeeff00;
  return header;
}

// Used rows hold seeded bytes that are never zero; the others and the padding are zero.
inline void FillRows(MutableBytes payload, const KvGeometry& geometry, uint32_t tokens_used,
                     uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint64_t used = uint64_t{tokens_used} * geometry.head_dim * geometry.element_bytes();
  for (uint64_t head = 0; head < payload.size(); head += geometry.head_bytes()) {
    for (std::byte& b : payload.subspan(head, used)) {
      b = static_cast<std::byte>(1 + random() % 255);
    }
  }
}

inline SampleRecord MakeRecord(const RecordHeader& header, uint64_t seed = 1) {
  SampleRecord record;
  record.memory = AlignedBuffer::Allocate(header.geometry.record_bytes()).value();
  record.header = header;
  FillRows(record.payload(), header.geometry, header.tokens_used, seed);
  record.digest = SealRecord(record.bytes(), header);
  return record;
}

inline SampleRecord MakeRecord(const KvGeometry& geometry, uint32_t tokens_used,
                               uint64_t seed = 1) {
  return MakeRecord(SampleHeader(geometry, tokens_used), seed);
}

// What a forger does after changing the header page: XXH3-64 of the page with bytes 144 to 151
// zero.
inline void RecomputeHeaderChecksum(MutableBytes record) {
  StoreLe<uint64_t>(record, 144, 0);
  StoreLe<uint64_t>(record, 144, Xxh3_64(record.first(4096)));
}

}  // namespace kvbed
