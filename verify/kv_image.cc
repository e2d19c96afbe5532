#include "verify/kv_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "offload/record.h"

namespace kvbed {
namespace {

uint64_t DifferingBits(Bytes a, Bytes b) {
  uint64_t bits = 0;
  size_t i = 0;
  for (; i + 8 <= a.size(); i += 8) {
    uint64_t x, y;
    std::memcpy(&x, a.data() + i, 8);
    std::memcpy(&y, b.data() + i, 8);
    bits += static_cast<uint64_t>(std::popcount(x ^ y));
  }
  for (; i < a.size(); ++i) {
    bits += static_cast<uint64_t>(std::popcount(std::to_integer<unsigned>(a[i] ^ b[i])));
  }
  return bits;
}

uint64_t SetBits(Bytes bytes) {
  uint64_t bits = 0;
  for (std::byte b : bytes) {
    bits += static_cast<uint64_t>(std::popcount(std::to_integer<unsigned>(b)));
  }
  return bits;
}

uint64_t FirstNonZero(Bytes bytes) {
  const auto at =
      std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
  return static_cast<uint64_t>(at - bytes.begin());
}

// An element's bits as a number.
std::string ElementText(Bytes element) {
  uint32_t bits = 0;
  std::memcpy(&bits, element.data(), element.size());
  return fmt::format("0x{:0{}x}", bits, element.size() * 2);
}

}  // namespace

KvView KvView::Of(const Sequence& sequence) {
  KvView view;
  view.geometry = sequence.pool().geometry();
  view.identity = sequence.identity();
  view.tokens = sequence.cached_tokens();
  for (uint64_t i = 0; i < sequence.blocks(); ++i) {
    view.blocks.push_back(sequence.pool().record(sequence.block_table()[i]).subspan(kPageBytes));
  }
  return view;
}

Result<KvImage> KvImage::CopyOf(const Sequence& sequence) {
  const KvView source = KvView::Of(sequence);
  const uint64_t payload_bytes = source.geometry.payload_bytes();
  KvImage image;
  image.geometry_ = source.geometry;
  image.identity_ = source.identity;
  image.tokens_ = source.tokens;
  auto memory = AlignedBuffer::Allocate(source.blocks.size() * payload_bytes);
  if (!memory.ok()) {
    return memory.status().WithContext(fmt::format("copy of the KV of {} tokens", source.tokens));
  }
  image.memory_ = std::move(memory).value();
  for (uint64_t i = 0; i < source.blocks.size(); ++i) {
    std::memcpy(image.memory_.bytes().data() + i * payload_bytes, source.blocks[i].data(),
                payload_bytes);
  }
  return image;
}

KvView KvImage::view() const {
  KvView view;
  view.geometry = geometry_;
  view.identity = identity_;
  view.tokens = tokens_;
  for (uint64_t i = 0; i < geometry_.BlocksFor(tokens_); ++i) {
    view.blocks.push_back(
        memory_.bytes().subspan(i * geometry_.payload_bytes(), geometry_.payload_bytes()));
  }
  return view;
}

KvComparer::KvComparer(const KvView& expected, uint64_t tokens, uint64_t actual_tokens)
    : expected_(expected),
      actual_tokens_(actual_tokens),
      seen_(expected.geometry.BlocksFor(tokens)) {
  KVBED_CHECK(tokens <= expected.tokens && tokens <= actual_tokens);
  result_.tokens = tokens;
  result_.wanted_bytes = tokens * expected.geometry.kv_bytes_per_token();
}

void KvComparer::AddBlock(uint64_t block, Bytes payload) {
  const KvGeometry& g = expected_.geometry;
  if (block >= seen_.size()) return;
  KVBED_CHECK(!seen_[block] && payload.size() >= g.payload_bytes());
  seen_[block] = true;
  const uint64_t first_token = block * g.block_tokens;
  const auto rows_of = [&](uint64_t tokens) {
    return std::min<uint64_t>(g.block_tokens, tokens - std::min(tokens, first_token));
  };
  const uint64_t row_bytes = g.head_dim * g.element_bytes();
  const uint64_t compared = rows_of(result_.tokens) * row_bytes;
  const uint64_t used = rows_of(actual_tokens_) * row_bytes;
  for (uint64_t head = 0; head < g.payload_bytes(); head += g.head_bytes()) {
    CompareRows(block, head, expected_.blocks[block].subspan(head, compared),
                payload.subspan(head, compared));
    CompareRows(block, head + used, {}, payload.subspan(head + used, g.head_bytes() - used));
  }
  result_.compared_bytes += rows_of(result_.tokens) * g.kv_bytes_per_token();
  CompareRows(block, g.payload_bytes(), {}, payload.subspan(g.payload_bytes()));
}

void KvComparer::CompareRows(uint64_t block, uint64_t offset, Bytes expected, Bytes actual) {
  if (expected.empty()) {
    if (AllZero(actual)) return;
    result_.differing_bits += SetBits(actual);
    const uint64_t at = FirstNonZero(actual);
    Finding finding = FindingAt(block, offset + at);
    finding.check = Check::kPadding;
    finding.expected = "00";
    finding.actual = ToHex(actual.subspan(at, 1));
    finding.message = "a row without a token, or the padding, is not zero";
    NoteFirst(block, std::move(finding));
    return;
  }
  if (std::memcmp(expected.data(), actual.data(), expected.size()) == 0) return;
  result_.differing_bits += DifferingBits(expected, actual);
  const auto first = std::mismatch(expected.begin(), expected.end(), actual.begin()).first;
  const uint64_t element_bytes = expected_.geometry.element_bytes();
  const uint64_t at =
      static_cast<uint64_t>(first - expected.begin()) / element_bytes * element_bytes;
  Finding finding = FindingAt(block, offset + at);
  finding.check = Check::kPayload;
  finding.expected = ElementText(expected.subspan(at, element_bytes));
  finding.actual = ElementText(actual.subspan(at, element_bytes));
  finding.message =
      fmt::format("{} of layer {} head {} token {} dim {} is {}, expected {}",
                  *finding.kv == KvPart::kK ? "K" : "V", *finding.layer, *finding.head,
                  *finding.token, *finding.dim, finding.actual, finding.expected);
  NoteFirst(block, std::move(finding));
}

void KvComparer::NoteFirst(uint64_t block, Finding finding) {
  if (result_.first && first_block_ <= block) return;
  first_block_ = block;
  result_.first = std::move(finding);
}

Finding KvComparer::FindingAt(uint64_t block, uint64_t payload_offset) const {
  const KvGeometry& g = expected_.geometry;
  Finding finding;
  finding.id.key = {expected_.identity.model_fingerprint, expected_.identity.sequence_id, block};
  finding.first_token = block * g.block_tokens;
  finding.token_count = std::min<uint64_t>(g.block_tokens, actual_tokens_ - *finding.first_token);
  finding.byte_offset = kPageBytes + payload_offset;
  if (payload_offset < g.payload_bytes()) {
    const KvCoordinate at = g.CoordinateAt(payload_offset);
    finding.layer = at.layer;
    finding.kv = at.part;
    finding.head = at.kv_head;
    finding.token = *finding.first_token + at.token;
    finding.dim = at.dim;
  }
  return finding;
}

Result<KvComparison> CompareKv(const KvView& expected, const KvView& actual, uint64_t tokens) {
  if (expected.geometry != actual.geometry) {
    return Status::InvalidArgument("K and V of different geometries can't be compared bit by bit");
  }
  if (tokens > expected.tokens || tokens > actual.tokens) {
    return Status::InvalidArgument(fmt::format("{} tokens to compare, but there are {} and {}",
                                               tokens, expected.tokens, actual.tokens));
  }
  KvComparer comparer(expected, tokens, actual.tokens);
  for (uint64_t i = 0; i < actual.blocks.size(); ++i) comparer.AddBlock(i, actual.blocks[i]);
  return comparer.result();
}

}  // namespace kvbed
