#include "verify/kv_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvbed {
namespace {

Digest128 DigestHead(const KvView& kv, uint64_t tokens, uint64_t head_offset) {
  const KvGeometry& g = kv.geometry;
  Xxh3Stream stream;
  for (uint64_t block = 0; block < g.BlocksFor(tokens); ++block) {
    const uint64_t rows = std::min<uint64_t>(g.block_tokens, tokens - block * g.block_tokens);
    stream.Add(kv.payloads[block].subspan(head_offset, rows * g.head_dim * g.element_bytes()));
  }
  return stream.Finish128();
}

}  // namespace

KvDigest DigestKv(const KvView& kv, uint64_t tokens) {
  KVBED_CHECK(tokens <= kv.tokens);
  const KvGeometry& g = kv.geometry;
  KvDigest digest;
  digest.tokens = tokens;
  std::array<std::byte, 20> shape;
  StoreLe<uint64_t>(shape, 0, tokens);
  StoreLe<uint32_t>(shape, 8, g.kv_heads);
  StoreLe<uint32_t>(shape, 12, g.head_dim);
  StoreLe<uint32_t>(shape, 16, static_cast<uint32_t>(g.dtype));
  Xxh3Stream total;
  total.Add(shape);
  for (uint32_t layer = 0; layer < g.layers; ++layer) {
    for (KvPart part : {KvPart::kK, KvPart::kV}) {
      Xxh3Stream heads;
      for (uint32_t head = 0; head < g.kv_heads; ++head) {
        heads.Add(DigestHead(kv, tokens, g.HeadOffset(layer, part, head)).bytes);
      }
      digest.parts.push_back(heads.Finish128());
      total.Add(digest.parts.back().bytes);
    }
  }
  digest.total = total.Finish128();
  return digest;
}

KvDigest DigestKv(const Sequence& sequence) {
  return DigestKv(KvView::Of(sequence), sequence.cached_tokens());
}

std::string KvDigest::DifferenceFrom(const KvDigest& other) const {
  if (*this == other) return {};
  if (tokens != other.tokens) return fmt::format("token count: {} and {}", tokens, other.tokens);
  if (parts.size() != other.parts.size()) return "layer count";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != other.parts[i]) return fmt::format("{} of layer {}", i % 2 ? "V" : "K", i / 2);
  }
  return "shape";
}

}  // namespace kvbed
