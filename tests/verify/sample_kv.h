// K and V of a sequence whose values follow from a seed, and the same in any layout, as engines
// dump them. It packs element by element, without strides, so that it can't share a mistake with
// what reads them.
#pragma once

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "offload/bytes.h"
#include "verify/kv_dump.h"

namespace kvbed {

struct KvAt {
  uint64_t layer = 0;
  KvPart part = KvPart::kK;
  uint64_t head = 0;
  uint64_t token = 0;
  uint64_t dim = 0;
};

// [layer][K|V][head][token][dim] in `bytes`. Elements are finite values near 1 of bf16, fp16 or
// fp32, or any bytes.
struct SampleKv {
  KvDumpShape shape;
  uint64_t tokens = 0;
  std::vector<std::byte> bytes;

  uint64_t element_bytes() const { return KvElementBytes(shape.element); }
  MutableBytes Element(const KvAt& at) {
    const uint64_t index =
        (((at.layer * 2 + static_cast<uint64_t>(at.part)) * shape.kv_heads + at.head) * tokens +
         at.token) *
            shape.head_dim +
        at.dim;
    return MutableBytes(bytes).subspan(index * element_bytes(), element_bytes());
  }
  template <class Bits>
  void Set(const KvAt& at, Bits bits) {
    std::memcpy(Element(at).data(), &bits, sizeof(bits));
  }
  // The rows of a head.
  MutableBytes Head(uint64_t layer, KvPart part, uint64_t head) {
    const uint64_t head_bytes = tokens * shape.row_bytes();
    return MutableBytes(bytes).subspan(
        ((layer * 2 + static_cast<uint64_t>(part)) * shape.kv_heads + head) * head_bytes,
        head_bytes);
  }
  template <class Visit>
  void ForEach(const Visit& visit) {
    for (uint64_t layer = 0; layer < shape.layers; ++layer)
      for (const KvPart part : {KvPart::kK, KvPart::kV})
        for (uint64_t head = 0; head < shape.kv_heads; ++head)
          for (uint64_t token = 0; token < tokens; ++token)
            for (uint64_t dim = 0; dim < shape.head_dim; ++dim)
              visit(KvAt{layer, part, head, token, dim});
  }

  KvDump Dump() const {
    KvDump dump;
    dump.shape = shape;
    dump.end_token = tokens;
    dump.strides = {
        .head = tokens * shape.row_bytes(), .token = shape.row_bytes(), .dim = element_bytes()};
    const uint64_t part_bytes = shape.kv_heads * tokens * shape.row_bytes();
    for (uint64_t i = 0; i < shape.layers * 2; ++i) {
      dump.parts.push_back(Bytes(bytes).subspan(i * part_bytes, part_bytes));
    }
    return dump;
  }
};

inline SampleKv MakeSampleKv(KvElement element = KvElement::kBf16, uint64_t tokens = 40,
                             uint64_t seed = 1, KvDumpShape shape = {3, 2, 8}) {
  shape.element = element;
  SampleKv kv{shape, tokens, {}};
  kv.bytes.resize(shape.layers * 2 * shape.kv_heads * tokens * shape.row_bytes());
  std::mt19937_64 random(seed);
  kv.ForEach([&](const KvAt& at) {
    const uint64_t bits = random();
    switch (element) {
      case KvElement::kBf16: kv.Set(at, static_cast<uint16_t>(0x3f00u | (bits & 0x80ffu))); break;
      case KvElement::kFp16: kv.Set(at, static_cast<uint16_t>(0x3800u | (bits & 0x87ffu))); break;
      case KvElement::kFp32:
        kv.Set(at, static_cast<uint32_t>(0x3f000000u | (bits & 0x80ffffffu)));
        break;
      default: kv.Set(at, static_cast<uint8_t>(1 + bits % 0x70)); break;
    }
  });
  return kv;
}

struct PackedKv {
  std::vector<uint64_t> shape;
  std::string bytes;
};

// `letters` as in a layout string without brackets. With N, tokens lie in blocks of `block_tokens`
// as `table` says, of `blocks` in all; what holds no token is 0xee. `inner`: the count of x.
inline PackedKv PackKv(SampleKv kv, const std::string& letters, uint64_t block_tokens = 0,
                       const std::vector<uint64_t>& table = {}, uint64_t blocks = 0,
                       uint64_t inner = 1) {
  const std::map<char, uint64_t> counts = {{'L', kv.shape.layers},
                                           {'2', 2},
                                           {'H', kv.shape.kv_heads},
                                           {'T', block_tokens > 0 ? block_tokens : kv.tokens},
                                           {'D', kv.shape.head_dim / inner},
                                           {'N', blocks},
                                           {'x', inner},
                                           {'1', 1}};
  PackedKv packed;
  uint64_t elements = 1;
  for (const char c : letters) {
    packed.shape.push_back(counts.at(c));
    elements *= counts.at(c);
  }
  packed.bytes.assign(elements * kv.element_bytes(), '\xee');
  kv.ForEach([&](const KvAt& at) {
    std::map<char, uint64_t> index = {{'L', at.layer},
                                      {'2', static_cast<uint64_t>(at.part)},
                                      {'H', at.head},
                                      {'T', at.token},
                                      {'D', at.dim / inner},
                                      {'x', at.dim % inner},
                                      {'1', 0}};
    if (block_tokens > 0) {
      index['N'] = table[at.token / block_tokens];
      index['T'] = at.token % block_tokens;
    }
    uint64_t place = 0;
    for (const char c : letters) place = place * counts.at(c) + index.at(c);
    const Bytes element = kv.Element(at);
    std::memcpy(packed.bytes.data() + place * element.size(), element.data(), element.size());
  });
  return packed;
}

}  // namespace kvbed
