// The record format: a 4 KiB header page, the payload, zero padding. Sealing writes the header with
// its digests, verifying says which check fails first. FORMAT.md has the offsets and an example.
// It doesn't know where a record is kept.
#pragma once

#include <cstdint>
#include <optional>

#include "offload/bytes.h"
#include "offload/digest.h"
#include "offload/finding.h"
#include "offload/kv_geometry.h"
#include "offload/record_id.h"
#include "offload/status.h"

namespace kvbed {

inline constexpr uint32_t kRecordFormatVersion = 1;

// What poisoned memory holds: an all-ones NaN in bf16 and in fp32, and no record's magic.
inline constexpr std::byte kPoisonByte{0xff};

// What a header says of its record, besides the digests.
struct RecordHeader {
  RecordId id;
  KvGeometry geometry;
  uint32_t layout = kPayloadLayout;
  uint32_t tokens_used = 0;     // rows of the block that hold a token: 1 to block_tokens
  uint64_t first_position = 0;  // position of row 0 in the sequence
  uint64_t rope_identity = 0;   // digest of the RoPE parameters that rotated K
  bool operator==(const RecordHeader&) const = default;
};

// Decodes any bytes. Not supported for an unknown version or flag, corruption for the rest.
// `page` must hold at least a header page, else corruption.
Result<RecordHeader> DecodeRecordHeader(Bytes page);

// The record digest that an intact header carries.
Digest128 RecordDigestOf(Bytes page);

// Hashes the payload and writes the header page into `record`, which is geometry.record_bytes()
// long and whose unused rows and padding are zero already. Returns the record digest: XXH3-128 over
// the table of the layers' digests, so that each payload byte is hashed once.
Digest128 SealRecord(MutableBytes record, const RecordHeader& header);

// Checks a whole record against what the manifest says it is: every byte of it is covered. Returns
// the first failure, in the order magic, version, header checksum, length, fingerprint, key,
// generation, layout, manifest digest, payload by layer, padding.
std::optional<Finding> VerifyRecord(Bytes record, const RecordHeader& expected,
                                    const Digest128& expected_digest);

// Layers that share one digest of K and one of V: 1 unless the header page is too small.
uint32_t LayersPerDigest(uint32_t layers);

}  // namespace kvbed
