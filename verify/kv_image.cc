#include "verify/kv_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace kvbed {
namespace {

// The payload of a block and its padding.
Bytes BodyOf(const Sequence& sequence, uint64_t block) {
  return sequence.pool().record(sequence.block_table()[block]).subspan(kPageBytes);
}

uint64_t DifferingBits(Bytes a, Bytes b) {
  uint64_t bits = 0;
  size_t i = 0;
  for (; i + 8 <= a.size(); i += 8) {
    bits += static_cast<uint64_t>(std::popcount(LoadLe<uint64_t>(a, i) ^ LoadLe<uint64_t>(b, i)));
  }
  for (; i < a.size(); ++i) {
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
  const KvView source = KvView::Of(sequence);
  KvImage image;
  image.geometry_ = source.geometry;
  image.identity_ = sequence.identity();
  image.tokens_ = source.tokens;
  image.bytes_.reserve(source.payloads.size() * source.geometry.payload_bytes());
  for (const Bytes payload : source.payloads) {
    image.bytes_.insert(image.bytes_.end(), payload.begin(), payload.end());
  }
  return image;
}

Bytes KvImage::payload(uint64_t block) const {
  KVBED_CHECK(block < blocks());
  return Bytes(bytes_).subspan(block * geometry_.payload_bytes(), geometry_.payload_bytes());
}

KvView KvImage::view() const {
  KvView view{geometry_, tokens_, {}};
  for (uint64_t block = 0; block < blocks(); ++block) view.payloads.push_back(payload(block));
  return view;
}

KvComparison KvImage::CompareBlock(uint64_t block, Bytes payload, uint64_t tokens) const {
  KVBED_CHECK(payload.size() >= geometry_.payload_bytes());
  KVBED_CHECK(tokens <= tokens_ && block * geometry_.block_tokens < tokens);
  const uint64_t rows =
      std::min<uint64_t>(geometry_.block_tokens, tokens - block * geometry_.block_tokens);
  const uint64_t used_bytes = rows * geometry_.head_dim * geometry_.element_bytes();
  const uint64_t padding_bytes = payload.size() - geometry_.payload_bytes();
  const std::vector<std::byte> zeroes(std::max(geometry_.head_bytes() - used_bytes, padding_bytes));
  const Bytes reference = this->payload(block);
  KvComparison result;
  result.compared_bytes = geometry_.payload_bytes();
  const auto compare = [&](uint64_t offset, Bytes want) {
    const Bytes have = payload.subspan(offset, want.size());
    if (want.empty() || std::memcmp(want.data(), have.data(), want.size()) == 0) return;
    result.differing_bits += DifferingBits(want, have);
    if (result.first) return;
    const auto bad = std::mismatch(want.begin(), want.end(), have.begin()).first;
    const uint64_t element_bytes = geometry_.element_bytes();
    const uint64_t at = static_cast<uint64_t>(bad - want.begin()) / element_bytes * element_bytes;
    const uint64_t shown_bytes = std::min<uint64_t>(element_bytes, want.size() - at);
    Finding finding = FindingAt(block, kPageBytes + offset + at, tokens);
    finding.expected = ToHex(want.subspan(at, shown_bytes));
    finding.actual = ToHex(have.subspan(at, shown_bytes));
    finding.message =
        finding.check == Check::kPadding
            ? fmt::format("the padding of block {} is not zero", block)
            : fmt::format(
                  "{} of layer {}, KV head {}, token {}, dim {} is {}, in the cached run {}",
                  *finding.kv == KvPart::kK ? "K" : "V", *finding.layer, *finding.head,
                  *finding.token, *finding.dim, finding.actual, finding.expected);
    result.first = std::move(finding);
  };
  for (uint64_t head = 0; head < geometry_.payload_bytes(); head += geometry_.head_bytes()) {
    compare(head, reference.subspan(head, used_bytes));
    compare(head + used_bytes, Bytes(zeroes).first(geometry_.head_bytes() - used_bytes));
  }
  compare(geometry_.payload_bytes(), Bytes(zeroes).first(padding_bytes));
  return result;
}

KvComparison KvImage::Compare(const Sequence& sequence) const {
  KVBED_CHECK(sequence.pool().geometry() == geometry_);
  KvComparison result;
  for (uint64_t block = 0; block < sequence.blocks(); ++block) {
    result.Merge(CompareBlock(block, BodyOf(sequence, block), sequence.cached_tokens()));
  }
  return result;
}

Finding KvImage::FindingAt(uint64_t block, uint64_t record_offset, uint64_t tokens) const {
  Finding finding;
  finding.id.key = {identity_.model_fingerprint, identity_.sequence_id, block};
  finding.first_token = block * geometry_.block_tokens;
  finding.token_count = std::min<uint64_t>(geometry_.block_tokens, tokens - *finding.first_token);
  finding.byte_offset = record_offset;
  const uint64_t payload_offset = record_offset - kPageBytes;
  finding.check = payload_offset < geometry_.payload_bytes() ? Check::kPayload : Check::kPadding;
  if (finding.check == Check::kPadding) return finding;
  const KvCoordinate at = geometry_.CoordinateAt(payload_offset);
  finding.layer = at.layer;
  finding.kv = at.part;
  finding.head = at.kv_head;
  finding.token = *finding.first_token + at.token;
  finding.dim = at.dim;
  return finding;
}

}  // namespace kvbed
