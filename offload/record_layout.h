// Where each field of a record's header page lies, and how its digests are computed. Shared by what
// seals, verifies and explains records; FORMAT.md is the same in prose. It decides nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "offload/bytes.h"
#include "offload/digest.h"
#include "offload/kv_geometry.h"
#include "offload/record.h"

namespace kvbed::record_layout {

inline constexpr std::string_view kRecordMagic = "KVBEDREC";

inline constexpr size_t kMagicAt = 0;
inline constexpr size_t kVersionAt = 8;
inline constexpr size_t kFlagsAt = 12;
inline constexpr size_t kHeaderBytesAt = 16;
inline constexpr size_t kDTypeAt = 20;
inline constexpr size_t kPayloadBytesAt = 24;
inline constexpr size_t kIdAt = 32;
inline constexpr size_t kLayoutAt = 72;
inline constexpr size_t kLayersAt = 76;
inline constexpr size_t kKvHeadsAt = 80;
inline constexpr size_t kHeadDimAt = 84;
inline constexpr size_t kBlockTokensAt = 88;
inline constexpr size_t kTokensUsedAt = 92;
inline constexpr size_t kFirstPositionAt = 96;
inline constexpr size_t kRopeIdentityAt = 104;
inline constexpr size_t kLayersPerDigestAt = 112;
inline constexpr size_t kDigestCountAt = 116;
inline constexpr size_t kReservedAt = 120;  // 8 zero bytes
inline constexpr size_t kRecordDigestAt = 128;
inline constexpr size_t kHeaderChecksumAt = 144;
inline constexpr size_t kReservedToo = 152;  // 8 zero bytes
inline constexpr size_t kDigestTableAt = 160;

inline constexpr size_t kDigestCountMax = (kPageBytes - kDigestTableAt) / sizeof(uint64_t);

// Entries of the digest table: K then V of each group of LayersPerDigest layers.
uint32_t DigestCount(const KvGeometry& geometry);
// The layers of entry `index`: [first, last).
struct DigestLayers {
  uint32_t first = 0;
  uint32_t last = 0;
  KvPart part = KvPart::kK;
};
DigestLayers LayersOfDigest(const KvGeometry& geometry, uint32_t index);
// What entry `index` must be for `payload`: XXH3-64 over the slices of its layers, one after the
// other.
uint64_t TableDigest(Bytes payload, const KvGeometry& geometry, uint32_t index);
uint64_t StoredTableDigest(Bytes page, uint32_t index);

// XXH3-128 over the table's `count` entries.
Digest128 DigestOfTable(Bytes page, uint32_t count);
// XXH3-64 over the page with the checksum's own field as zero.
uint64_t HeaderChecksum(Bytes page);

// The header page of a record with this header and payload; returns the record digest.
Digest128 WriteHeaderPage(MutableBytes page, const RecordHeader& header, Bytes payload);

}  // namespace kvbed::record_layout
