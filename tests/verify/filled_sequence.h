// A sequence in a pool of its own whose K and V are a function of seed, element and position, so
// that sequences with other block sizes hold the same KV.
#pragma once

#include <cstring>
#include <memory>
#include <random>

#include "offload/block_pool.h"
#include "offload/record.h"
#include "offload/sequence.h"

namespace kvbed {

inline KvGeometry SmallGeometry(uint32_t block_tokens, DType dtype = DType::kBf16) {
  return {.layers = 3, .kv_heads = 2, .head_dim = 4, .dtype = dtype, .block_tokens = block_tokens};
}

struct FilledSequence {
  std::unique_ptr<BlockPool> pool;
  std::unique_ptr<Sequence> sequence;

  // The element at `at`, whose token is a position in the sequence.
  MutableBytes Element(KvCoordinate at) {
    const KvGeometry& g = pool->geometry();
    const uint32_t block = at.token / g.block_tokens;
    at.token %= g.block_tokens;
    return sequence->payload(block).subspan(g.ElementOffset(at), g.element_bytes());
  }
  template <class Bits>
  void Set(const KvCoordinate& at, Bits bits) {
    std::memcpy(Element(at).data(), &bits, sizeof(bits));
  }
};

inline FilledSequence MakeFilled(const KvGeometry& g, uint64_t tokens, uint64_t seed = 1) {
  FilledSequence filled;
  filled.pool = BlockPool::Create(g, static_cast<uint32_t>(g.BlocksFor(tokens) + 1)).value();
  const SequenceIdentity identity = {Xxh3_128(AsBytes("model")), 5, 77};
  filled.sequence = std::make_unique<Sequence>(*filled.pool, identity);
  KVBED_CHECK(filled.sequence->Reserve(tokens).ok());
  filled.sequence->Advance(tokens);
  for (uint32_t layer = 0; layer < g.layers; ++layer) {
    for (KvPart part : {KvPart::kK, KvPart::kV}) {
      for (uint32_t head = 0; head < g.kv_heads; ++head) {
        std::mt19937 random(static_cast<uint32_t>(seed * 1000 + layer * 100 + head * 10) +
                            static_cast<uint32_t>(part));
        for (uint32_t token = 0; token < tokens; ++token) {
          for (uint32_t dim = 0; dim < g.head_dim; ++dim) {
            // 0.5 to 1.99, so that neighbouring bit patterns are finite values nearby.
            const uint32_t bits = 0x3f000000u | (random() & 0x00ff0000u) | 0x00000100u;
            if (g.dtype == DType::kFp32) filled.Set({layer, part, head, token, dim}, bits);
            if (g.dtype == DType::kBf16) {
              filled.Set({layer, part, head, token, dim}, static_cast<uint16_t>(bits >> 16));
            }
          }
        }
      }
    }
  }
  return filled;
}

}  // namespace kvbed
