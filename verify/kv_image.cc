#include "verify/kv_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "offload/digest.h"

namespace kvbed {
namespace {

Bytes PayloadOf(const Sequence& sequence, uint64_t block) {
  const KvGeometry& geometry = sequence.pool().geometry();
  return sequence.pool()
      .record(sequence.block_table()[block])
      .subspan(kPageBytes, geometry.payload_bytes());
}

uint64_t DifferingBits(Bytes a, Bytes b) {
  uint64_t bits = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    bits += static_cast<uint64_t>(std::popcount(std::to_integer<unsigned>(a[i] ^ b[i])));
  }
  return bits;
}

}  // namespace

void KvComparison::Merge(const KvComparison& other) {
  compared_bytes += other.compared_bytes;
  differing_bits += other.differing_bits;
  if (!first) first = other.first;
}

KvImage KvImage::CopyOf(const Sequence& sequence) {
  KvImage image;
  image.geometry_ = sequence.pool().geometry();
  image.tokens_ = sequence.cached_tokens();
  image.bytes_.reserve(image.blocks() * image.geometry_.payload_bytes());
  for (uint64_t block = 0; block < image.blocks(); ++block) {
    const Bytes payload = PayloadOf(sequence, block);
    image.bytes_.insert(image.bytes_.end(), payload.begin(), payload.end());
  }
  return image;
}

Bytes KvImage::payload(uint64_t block) const {
  KVBED_CHECK(block < blocks());
  return Bytes(bytes_).subspan(block * geometry_.payload_bytes(), geometry_.payload_bytes());
}

KvComparison KvImage::CompareBlock(uint64_t block, Bytes payload, uint64_t tokens) const {
  KVBED_CHECK(payload.size() == geometry_.payload_bytes());
  KVBED_CHECK(tokens <= tokens_ && block * geometry_.block_tokens < tokens);
  const uint64_t row_bytes = geometry_.head_dim * geometry_.element_bytes();
  const uint64_t rows =
      std::min<uint64_t>(geometry_.block_tokens, tokens - block * geometry_.block_tokens);
  const uint64_t used_bytes = rows * row_bytes;
  const std::vector<std::byte> zeroes(geometry_.head_bytes() - used_bytes);
  const Bytes reference = this->payload(block);
  KvComparison result;
  result.compared_bytes = payload.size();
  const auto compare = [&](uint64_t offset, Bytes want) {
    const Bytes have = payload.subspan(offset, want.size());
    if (want.empty() || std::memcmp(want.data(), have.data(), want.size()) == 0) return;
    result.differing_bits += DifferingBits(want, have);
    if (result.first) return;
    const auto bad = std::mismatch(want.begin(), want.end(), have.begin()).first;
    const uint64_t element = static_cast<uint64_t>(bad - want.begin()) / geometry_.element_bytes() *
                             geometry_.element_bytes();
    const KvCoordinate at = geometry_.CoordinateAt(offset + element);
    Finding finding;
    finding.check = Check::kPayload;
    finding.id.key.block_index = block;
    finding.layer = at.layer;
    finding.kv = at.part;
    finding.head = at.kv_head;
    finding.token = block * geometry_.block_tokens + at.token;
    finding.dim = at.dim;
    finding.first_token = block * geometry_.block_tokens;
    finding.token_count = rows;
    finding.byte_offset = kPageBytes + offset + element;
    finding.expected = ToHex(want.subspan(element, geometry_.element_bytes()));
    finding.actual = ToHex(have.subspan(element, geometry_.element_bytes()));
    finding.message =
        fmt::format("{} of layer {}, KV head {}, token {}, dim {} is {}, in the cached run {}",
                    at.part == KvPart::kK ? "K" : "V", at.layer, at.kv_head, *finding.token, at.dim,
                    finding.actual, finding.expected);
    result.first = std::move(finding);
  };
  const uint64_t heads = uint64_t{2} * geometry_.layers * geometry_.kv_heads;
  for (uint64_t head = 0; head < heads; ++head) {
    const uint64_t offset = head * geometry_.head_bytes();
    compare(offset, reference.subspan(offset, used_bytes));
    compare(offset + used_bytes, zeroes);
  }
  return result;
}

KvComparison KvImage::Compare(const Sequence& sequence) const {
  KVBED_CHECK(sequence.pool().geometry() == geometry_);
  KvComparison result;
  for (uint64_t block = 0; block < sequence.blocks(); ++block) {
    result.Merge(CompareBlock(block, PayloadOf(sequence, block), sequence.cached_tokens()));
  }
  return result;
}

Digest128 DigestKv(const Sequence& sequence) {
  Xxh3Stream stream;
  for (uint64_t block = 0; block < sequence.blocks(); ++block) {
    stream.Add(PayloadOf(sequence, block));
  }
  return stream.Finish128();
}

}  // namespace kvbed
