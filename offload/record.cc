#include "offload/record.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvbed {
namespace {

// Offsets in the header page; FORMAT.md says what each field protects against.
constexpr size_t kMagicAt = 0;
constexpr size_t kVersionAt = 8;
constexpr size_t kFlagsAt = 12;
constexpr size_t kHeaderBytesAt = 16;
constexpr size_t kDTypeAt = 20;
constexpr size_t kPayloadBytesAt = 24;
constexpr size_t kIdAt = 32;
constexpr size_t kLayoutAt = 72;
constexpr size_t kLayersAt = 76;
constexpr size_t kKvHeadsAt = 80;
constexpr size_t kHeadDimAt = 84;
constexpr size_t kBlockTokensAt = 88;
constexpr size_t kTokensUsedAt = 92;
constexpr size_t kFirstPositionAt = 96;
constexpr size_t kRopeIdentityAt = 104;
constexpr size_t kLayersPerDigestAt = 112;
constexpr size_t kDigestCountAt = 116;
constexpr size_t kRecordDigestAt = 128;
constexpr size_t kHeaderChecksumAt = 144;
constexpr size_t kDigestTableAt = 160;

constexpr std::string_view kMagic = "KVBEDREC";
constexpr size_t kDigestCountMax = (kPageBytes - kDigestTableAt) / sizeof(uint64_t);

// Why a page is no header, in the terms of a finding.
struct Defect {
  Check check;
  size_t byte_offset;
  std::string expected;
  std::string actual;
  std::string message;
};

uint64_t HeaderChecksum(Bytes page) {
  std::array<std::byte, kPageBytes> copy;
  std::copy_n(page.begin(), kPageBytes, copy.begin());
  StoreLe<uint64_t>(copy, kHeaderChecksumAt, 0);
  return Xxh3_64(copy);
}

Digest128 LoadDigest(Bytes page, size_t at) {
  Digest128 digest;
  std::copy_n(page.begin() + static_cast<ptrdiff_t>(at), digest.bytes.size(), digest.bytes.begin());
  return digest;
}

bool AllPoison(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kPoisonByte; });
}

// The digest of K or V of the layers [first, last): their slices one after the other.
uint64_t PartDigest(Bytes payload, const KvGeometry& geometry, uint32_t first, uint32_t last,
                    KvPart part) {
  const auto slice = [&](uint32_t layer) {
    return payload.subspan(geometry.PartOffset(layer, part), geometry.part_bytes());
  };
  if (last == first + 1) return Xxh3_64(slice(first));
  Xxh3Stream stream;
  for (uint32_t layer = first; layer < last; ++layer) stream.Add(slice(layer));
  return stream.Finish64();
}

// Digest `index` of the table: K then V of each group of layers.
uint64_t TableDigest(Bytes payload, const KvGeometry& geometry, uint32_t index) {
  const uint32_t group = LayersPerDigest(geometry.layers);
  const uint32_t first = index / 2 * group;
  const uint32_t last = std::min(first + group, geometry.layers);
  return PartDigest(payload, geometry, first, last, static_cast<KvPart>(index % 2));
}

uint32_t DigestCount(const KvGeometry& geometry) {
  const uint32_t group = LayersPerDigest(geometry.layers);
  return (geometry.layers + group - 1) / group * 2;
}

std::optional<Defect> ParseHeader(Bytes page, RecordHeader& header) {
  if (page.size() < kPageBytes) {
    return Defect{Check::kShort, 0, fmt::format("{} bytes", kPageBytes),
                  fmt::format("{} bytes", page.size()), "the header page is cut short"};
  }
  page = page.first(kPageBytes);
  if (AsText(page.subspan(kMagicAt, kMagic.size())) != kMagic) {
    const bool poison = AllPoison(page);
    const bool zero = AllZero(page);
    return Defect{poison ? Check::kPoison : Check::kMagic, kMagicAt, ToHex(AsBytes(kMagic)),
                  ToHex(page.subspan(kMagicAt, kMagic.size())),
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
  return std::nullopt;
}

Digest128 DigestOfTable(Bytes page, uint32_t count) {
  return Xxh3_128(page.subspan(kDigestTableAt, count * sizeof(uint64_t)));
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
    finding.damage = Damage::kEqualsOther;
    return finding;
  }
  if (actual.id.generation != expected.id.generation) {
    Finding finding = MakeFinding(
        Check::kGeneration, expected, kIdAt + 32, fmt::format("{}", expected.id.generation),
        fmt::format("{}", actual.id.generation),
        actual.id.generation < expected.id.generation ? "an older state of this block is here"
                                                      : "a newer state of this block is here");
    finding.other_id = actual.id;
    finding.damage = Damage::kEqualsOther;
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
    const auto stored = LoadLe<uint64_t>(record, kDigestTableAt + i * sizeof(uint64_t));
    const uint64_t computed = TableDigest(payload, geometry, i);
    if (computed == stored) continue;
    const uint32_t layer = i / 2 * LayersPerDigest(geometry.layers);
    const auto part = static_cast<KvPart>(i % 2);
    const uint64_t offset = geometry.PartOffset(layer, part);
    Finding finding = MakeFinding(Check::kPayload, expected, kPageBytes + offset,
                                  fmt::format("{:016x}", stored), fmt::format("{:016x}", computed),
                                  fmt::format("{} of layer {} does not match its digest",
                                              part == KvPart::kK ? "K" : "V", layer));
    finding.layer = layer;
    finding.kv = part;
    if (AllZero(payload.subspan(offset, geometry.part_bytes()))) finding.damage = Damage::kZeroed;
    return finding;
  }
  return std::nullopt;
}

}  // namespace

uint32_t LayersPerDigest(uint32_t layers) {
  const uint32_t groups_max = kDigestCountMax / 2;
  return std::max<uint32_t>(1, (layers + groups_max - 1) / groups_max);
}

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
  const MutableBytes page = record.first(kPageBytes);
  const Bytes payload = record.subspan(kPageBytes, geometry.payload_bytes());
  std::fill(page.begin(), page.end(), std::byte{0});
  std::copy_n(AsBytes(kMagic).begin(), kMagic.size(), page.begin());
  StoreLe<uint32_t>(page, kVersionAt, kRecordFormatVersion);
  StoreLe<uint32_t>(page, kHeaderBytesAt, kPageBytes);
  StoreLe<uint32_t>(page, kDTypeAt, static_cast<uint32_t>(geometry.dtype));
  StoreLe<uint64_t>(page, kPayloadBytesAt, geometry.payload_bytes());
  header.id.Encode(page.subspan(kIdAt, kRecordIdBytes));
  StoreLe<uint32_t>(page, kLayoutAt, header.layout);
  StoreLe<uint32_t>(page, kLayersAt, geometry.layers);
  StoreLe<uint32_t>(page, kKvHeadsAt, geometry.kv_heads);
  StoreLe<uint32_t>(page, kHeadDimAt, geometry.head_dim);
  StoreLe<uint32_t>(page, kBlockTokensAt, geometry.block_tokens);
  StoreLe<uint32_t>(page, kTokensUsedAt, header.tokens_used);
  StoreLe<uint64_t>(page, kFirstPositionAt, header.first_position);
  StoreLe<uint64_t>(page, kRopeIdentityAt, header.rope_identity);
  StoreLe<uint32_t>(page, kLayersPerDigestAt, LayersPerDigest(geometry.layers));
  const uint32_t count = DigestCount(geometry);
  StoreLe<uint32_t>(page, kDigestCountAt, count);
  for (uint32_t i = 0; i < count; ++i) {
    StoreLe<uint64_t>(page, kDigestTableAt + i * sizeof(uint64_t),
                      TableDigest(payload, geometry, i));
  }
  const Digest128 digest = DigestOfTable(page, count);
  std::copy(digest.bytes.begin(), digest.bytes.end(), page.begin() + kRecordDigestAt);
  StoreLe<uint64_t>(page, kHeaderChecksumAt, HeaderChecksum(page));
  return digest;
}

std::optional<Finding> VerifyRecord(Bytes record, const RecordHeader& expected,
                                    const Digest128& expected_digest) {
  const KvGeometry& geometry = expected.geometry;
  RecordHeader actual;
  if (auto defect = ParseHeader(record, actual)) {
    Finding finding =
        MakeFinding(defect->check, expected, defect->byte_offset, std::move(defect->expected),
                    std::move(defect->actual), std::move(defect->message));
    if (record.size() >= kPageBytes && AllZero(record.first(kPageBytes))) {
      finding.damage = Damage::kZeroed;
    }
    return finding;
  }
  if (record.size() != geometry.record_bytes()) {
    return MakeFinding(Check::kLength, expected, record.size(),
                       fmt::format("{} bytes", geometry.record_bytes()),
                       fmt::format("{} bytes", record.size()), "the record has another length");
  }
  if (auto finding = CompareHeaders(actual, expected)) return finding;
  const Digest128 digest = RecordDigestOf(record);
  if (digest != expected_digest ||
      DigestOfTable(record.first(kPageBytes), DigestCount(geometry)) != digest) {
    return MakeFinding(Check::kManifest, expected, kRecordDigestAt, expected_digest.ToHex(),
                       digest.ToHex(),
                       "the header is intact and of this block, but not the one in the manifest");
  }
  if (auto finding = VerifyPayload(record, expected)) return finding;
  const size_t end = kPageBytes + geometry.payload_bytes();
  const Bytes padding = record.subspan(end);
  if (!AllZero(padding)) {
    const auto bad =
        std::find_if(padding.begin(), padding.end(), [](std::byte b) { return b != std::byte{0}; });
    const auto at = static_cast<size_t>(bad - padding.begin());
    return MakeFinding(Check::kPadding, expected, end + at, "00", ToHex(padding.subspan(at, 1)),
                       "the padding behind the payload is not zero");
  }
  return std::nullopt;
}

}  // namespace kvbed
