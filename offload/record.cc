#include "offload/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "offload/record_layout.h"

namespace kvbed {
namespace {

using namespace record_layout;  // NOLINT: this file is about nothing else

// Why a page is no header, in the terms of a finding.
struct Defect {
  Check check;
  size_t byte_offset;
  std::string expected;
  std::string actual;
  std::string message;
};

Digest128 LoadDigest(Bytes page, size_t at) {
  Digest128 digest;
  std::copy_n(page.begin() + static_cast<ptrdiff_t>(at), digest.bytes.size(), digest.bytes.begin());
  return digest;
}

bool AllPoison(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kPoisonByte; });
}

// The first byte at or after `begin` and before `end` that isn't zero, else `end`.
size_t FirstNonZero(Bytes bytes, size_t begin, size_t end) {
  while (begin < end && bytes[begin] == std::byte{0}) ++begin;
  return begin;
}

// What a later version may use is zero in this one.
std::optional<Defect> CheckReserved(Bytes page, uint32_t digest_count) {
  const size_t table_end = kDigestTableAt + digest_count * sizeof(uint64_t);
  for (const auto& [begin, end] :
       {std::pair{kReservedAt, kRecordDigestAt}, std::pair{kReservedToo, kDigestTableAt},
        std::pair{table_end, size_t{kPageBytes}}}) {
    if (AllZero(page.subspan(begin, end - begin))) continue;
    const size_t at = FirstNonZero(page, begin, end);
    return Defect{Check::kVersion, at, "00", ToHex(page.subspan(at, 1)),
                  "a reserved byte of the header page is not zero"};
  }
  return std::nullopt;
}

std::optional<Defect> ParseHeader(Bytes page, RecordHeader& header) {
  if (page.size() < kPageBytes) {
    return Defect{Check::kShort, 0, fmt::format("{} bytes", kPageBytes),
                  fmt::format("{} bytes", page.size()), "the header page is cut short"};
  }
  page = page.first(kPageBytes);
  if (AsText(page.subspan(kMagicAt, kRecordMagic.size())) != kRecordMagic) {
    const bool poison = AllPoison(page);
    const bool zero = AllZero(page);
    return Defect{poison ? Check::kPoison : Check::kMagic, kMagicAt, ToHex(AsBytes(kRecordMagic)),
                  ToHex(page.subspan(kMagicAt, kRecordMagic.size())),
                  poison ? "the destination still holds its poison: nothing was copied into it"
                  : zero ? "the header page is all zeroes"
                         : "the page does not start with a record's magic"};
  }
  if (const auto version = LoadLe<uint32_t>(page, kVersionAt); version != kRecordFormatVersion) {
    return Defect{Check::kVersion, kVersionAt, fmt::format("{}", kRecordFormatVersion),
                  fmt::format("{}", version), "the record's format version is unknown"};
  }
  const auto checksum = LoadLe<uint64_t>(page, kHeaderChecksumAt);
  if (const uint64_t computed = HeaderChecksum(page); computed != checksum) {
    return Defect{Check::kHeaderChecksum, kHeaderChecksumAt, fmt::format("{:016x}", checksum),
                  fmt::format("{:016x}", computed), "the header page does not match its checksum"};
  }
  if (const auto flags = LoadLe<uint32_t>(page, kFlagsAt); flags != 0) {
    return Defect{Check::kVersion, kFlagsAt, "no flags", fmt::format("flags {:#x}", flags),
                  "the record has a flag that this version does not know"};
  }
  header.id = RecordId::Decode(page.subspan(kIdAt, kRecordIdBytes));
  header.layout = LoadLe<uint32_t>(page, kLayoutAt);
  header.geometry.layers = LoadLe<uint32_t>(page, kLayersAt);
  header.geometry.kv_heads = LoadLe<uint32_t>(page, kKvHeadsAt);
  header.geometry.head_dim = LoadLe<uint32_t>(page, kHeadDimAt);
  header.geometry.block_tokens = LoadLe<uint32_t>(page, kBlockTokensAt);
  header.geometry.dtype = static_cast<DType>(LoadLe<uint32_t>(page, kDTypeAt));
  header.tokens_used = LoadLe<uint32_t>(page, kTokensUsedAt);
  header.first_position = LoadLe<uint64_t>(page, kFirstPositionAt);
  header.rope_identity = LoadLe<uint64_t>(page, kRopeIdentityAt);
  if (Status valid = header.geometry.Validate(); !valid.ok()) {
    return Defect{Check::kLayout, kLayersAt, "a geometry within limits", valid.message(),
                  "the header's geometry is impossible"};
  }
  const uint64_t payload_bytes = LoadLe<uint64_t>(page, kPayloadBytesAt);
  const uint32_t header_bytes = LoadLe<uint32_t>(page, kHeaderBytesAt);
  if (payload_bytes != header.geometry.payload_bytes() || header_bytes != kPageBytes) {
    return Defect{
        Check::kLength, kPayloadBytesAt,
        fmt::format("header {} payload {} bytes", kPageBytes, header.geometry.payload_bytes()),
        fmt::format("header {} payload {} bytes", header_bytes, payload_bytes),
        "the lengths in the header contradict its geometry"};
  }
  const uint32_t group = LoadLe<uint32_t>(page, kLayersPerDigestAt);
  const uint32_t count = LoadLe<uint32_t>(page, kDigestCountAt);
  if (group != LayersPerDigest(header.geometry.layers) || count != DigestCount(header.geometry)) {
    return Defect{Check::kLayout, kLayersPerDigestAt,
                  fmt::format("{} digests, {} layers each", DigestCount(header.geometry),
                              LayersPerDigest(header.geometry.layers)),
                  fmt::format("{} digests, {} layers each", count, group),
                  "the digest table contradicts the geometry"};
  }
  if (header.tokens_used == 0 || header.tokens_used > header.geometry.block_tokens) {
    return Defect{Check::kLayout, kTokensUsedAt,
                  fmt::format("1 to {} rows used", header.geometry.block_tokens),
                  fmt::format("{}", header.tokens_used), "the number of used rows is impossible"};
  }
  return CheckReserved(page, count);
}

// A finding about the record that was expected, filled in with what is known of it.
Finding MakeFinding(Check check, const RecordHeader& expected, size_t byte_offset, std::string want,
                    std::string have, std::string message) {
  Finding finding;
  finding.check = check;
  finding.id = expected.id;
  finding.first_token = expected.first_position;
  finding.token_count = expected.tokens_used;
  finding.byte_offset = byte_offset;
  finding.expected = std::move(want);
  finding.actual = std::move(have);
  finding.message = std::move(message);
  return finding;
}

std::string GeometryText(const RecordHeader& header) {
  const KvGeometry& g = header.geometry;
  return fmt::format(
      "layout {} {} {} layers {} KV heads {} dims {} tokens, {} used from {}, rope {:016x}",
      header.layout, DTypeName(g.dtype), g.layers, g.kv_heads, g.head_dim, g.block_tokens,
      header.tokens_used, header.first_position, header.rope_identity);
}

// The identity checks of an intact header, in the documented order.
std::optional<Finding> CompareHeaders(const RecordHeader& actual, const RecordHeader& expected) {
  const RecordKey& want = expected.id.key;
  const RecordKey& have = actual.id.key;
  if (have.model_fingerprint != want.model_fingerprint) {
    Finding finding =
        MakeFinding(Check::kFingerprint, expected, kIdAt, want.model_fingerprint.ToHex(),
                    have.model_fingerprint.ToHex(), "the record was made by another model");
    finding.other_id = actual.id;
    return finding;
  }
  if (have != want) {
    Finding finding =
        MakeFinding(Check::kKey, expected, kIdAt + 16, expected.id.ToString(), actual.id.ToString(),
                    "an intact record of another block is here");
    finding.other_id = actual.id;
    return finding;
  }
  if (actual.id.generation != expected.id.generation) {
    Finding finding = MakeFinding(
        Check::kGeneration, expected, kIdAt + 32, fmt::format("{}", expected.id.generation),
        fmt::format("{}", actual.id.generation),
        actual.id.generation < expected.id.generation ? "an older state of this block is here"
                                                      : "a newer state of this block is here");
    finding.other_id = actual.id;
    return finding;
  }
  if (actual != expected) {
    return MakeFinding(Check::kLayout, expected, kLayoutAt, GeometryText(expected),
                       GeometryText(actual), "the record has another layout than its snapshot");
  }
  return std::nullopt;
}

std::optional<Finding> VerifyPayload(Bytes record, const RecordHeader& expected) {
  const KvGeometry& geometry = expected.geometry;
  const Bytes payload = record.subspan(kPageBytes, geometry.payload_bytes());
  const uint32_t count = DigestCount(geometry);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t stored = StoredTableDigest(record, i);
    const uint64_t computed = TableDigest(payload, geometry, i);
    if (computed == stored) continue;
    const auto [first, last, part] = LayersOfDigest(geometry, i);
    const std::string layers = last == first + 1
                                   ? fmt::format("layer {} does", first)
                                   : fmt::format("layers {} to {} do", first, last - 1);
    Finding finding = MakeFinding(
        Check::kPayload, expected, kPageBytes + geometry.PartOffset(first, part),
        fmt::format("{:016x}", stored), fmt::format("{:016x}", computed),
        fmt::format("{} of {} not match the digest", part == KvPart::kK ? "K" : "V", layers));
    if (last == first + 1) finding.layer = first;
    finding.kv = part;
    return finding;
  }
  return std::nullopt;
}

}  // namespace

Result<RecordHeader> DecodeRecordHeader(Bytes page) {
  RecordHeader header;
  const auto defect = ParseHeader(page, header);
  if (!defect) return header;
  std::string message =
      fmt::format("record header: {} (byte {}: expected {}, found {})", defect->message,
                  defect->byte_offset, defect->expected, defect->actual);
  if (defect->check == Check::kVersion) return Status::NotSupported(std::move(message));
  return Status::Corruption(std::move(message));
}

Digest128 RecordDigestOf(Bytes page) {
  KVBED_CHECK(page.size() >= kPageBytes);
  return LoadDigest(page, kRecordDigestAt);
}

Digest128 SealRecord(MutableBytes record, const RecordHeader& header) {
  const KvGeometry& geometry = header.geometry;
  KVBED_CHECK(geometry.Validate().ok() && record.size() == geometry.record_bytes());
  KVBED_CHECK(header.tokens_used >= 1 && header.tokens_used <= geometry.block_tokens);
  return WriteHeaderPage(record.first(kPageBytes), header,
                         record.subspan(kPageBytes, geometry.payload_bytes()));
}

std::optional<Finding> VerifyRecord(Bytes record, const RecordHeader& expected,
                                    const Digest128& expected_digest) {
  const KvGeometry& geometry = expected.geometry;
  RecordHeader actual;
  if (auto defect = ParseHeader(record, actual)) {
    return MakeFinding(defect->check, expected, defect->byte_offset, std::move(defect->expected),
                       std::move(defect->actual), std::move(defect->message));
  }
  if (record.size() != geometry.record_bytes()) {
    return MakeFinding(Check::kLength, expected, record.size(),
                       fmt::format("{} bytes", geometry.record_bytes()),
                       fmt::format("{} bytes", record.size()), "the record has another length");
  }
  if (auto finding = CompareHeaders(actual, expected)) return finding;
  const Digest128 digest = RecordDigestOf(record);
  if (digest != expected_digest) {
    return MakeFinding(Check::kManifest, expected, kRecordDigestAt, expected_digest.ToHex(),
                       digest.ToHex(),
                       "the header is intact and of this block, but not the one in the manifest");
  }
  const Digest128 table = DigestOfTable(record, DigestCount(geometry));
  if (table != expected_digest) {
    return MakeFinding(Check::kManifest, expected, kDigestTableAt, expected_digest.ToHex(),
                       table.ToHex(), "the digest table is not the one in the manifest");
  }
  if (auto finding = VerifyPayload(record, expected)) return finding;
  const size_t end = kPageBytes + geometry.payload_bytes();
  if (!AllZero(record.subspan(end))) {
    const size_t at = FirstNonZero(record, end, record.size());
    return MakeFinding(Check::kPadding, expected, at, "00", ToHex(record.subspan(at, 1)),
                       "the padding behind the payload is not zero");
  }
  return std::nullopt;
}

}  // namespace kvbed
