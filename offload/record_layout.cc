#include "offload/record_layout.h"

#include <algorithm>
#include <array>

namespace kvbed {

uint32_t LayersPerDigest(uint32_t layers) {
  const uint32_t groups_max = record_layout::kDigestCountMax / 2;
  return std::max<uint32_t>(1, (layers + groups_max - 1) / groups_max);
}

namespace record_layout {

uint32_t DigestCount(const KvGeometry& geometry) {
  const uint32_t group = LayersPerDigest(geometry.layers);
  return (geometry.layers + group - 1) / group * 2;
}

DigestLayers LayersOfDigest(const KvGeometry& geometry, uint32_t index) {
  const uint32_t group = LayersPerDigest(geometry.layers);
  const uint32_t first = index / 2 * group;
  return {first, std::min(first + group, geometry.layers), static_cast<KvPart>(index % 2)};
}

uint64_t TableDigest(Bytes payload, const KvGeometry& geometry, uint32_t index) {
  const DigestLayers layers = LayersOfDigest(geometry, index);
  const auto slice = [&](uint32_t layer) {
    return payload.subspan(geometry.PartOffset(layer, layers.part), geometry.part_bytes());
  };
  if (layers.last == layers.first + 1) return Xxh3_64(slice(layers.first));
  Xxh3Stream stream;
  for (uint32_t layer = layers.first; layer < layers.last; ++layer) stream.Add(slice(layer));
  return stream.Finish64();
}

uint64_t StoredTableDigest(Bytes page, uint32_t index) {
  return LoadLe<uint64_t>(page, kDigestTableAt + index * sizeof(uint64_t));
}

Digest128 DigestOfTable(Bytes page, uint32_t count) {
  return Xxh3_128(page.subspan(kDigestTableAt, count * sizeof(uint64_t)));
}

uint64_t HeaderChecksum(Bytes page) {
  std::array<std::byte, kPageBytes> copy;
  std::copy_n(page.begin(), kPageBytes, copy.begin());
  StoreLe<uint64_t>(copy, kHeaderChecksumAt, 0);
  return Xxh3_64(copy);
}

Digest128 WriteHeaderPage(MutableBytes page, const RecordHeader& header, Bytes payload) {
  const KvGeometry& geometry = header.geometry;
  std::fill(page.begin(), page.end(), std::byte{0});
  std::copy_n(AsBytes(kRecordMagic).begin(), kRecordMagic.size(), page.begin());
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

}  // namespace record_layout
}  // namespace kvbed
