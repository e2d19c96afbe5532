// Digests of a sequence's K and V, for comparing runs that never meet in one memory.
// They don't depend on block_tokens, so that runs with other block sizes compare too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/digest.h"
#include "offload/kv_geometry.h"
#include "verify/kv_view.h"

namespace kvbed {

struct KvDigest {
  uint64_t tokens = 0;
  // K of layer 0, V of layer 0, K of layer 1, ...: XXH3-128 over the digests of the KV heads, each
  // XXH3-128 over the head's rows [token][head_dim] of the tokens in order.
  std::vector<Digest128> parts;
  // XXH3-128 over tokens, KV heads, head_dim and dtype (8, 4, 4, 4 bytes) and the parts.
  Digest128 total;

  // "K of layer 3"; "token count" when that differs; empty when equal.
  std::string DifferenceFrom(const KvDigest& other) const;
  bool operator==(const KvDigest&) const = default;
};

// Of the first `tokens` tokens, of which `kv` must hold so many.
KvDigest DigestKv(const KvView& kv, uint64_t tokens);
// Of all its cached tokens.
KvDigest DigestKv(const Sequence& sequence);

}  // namespace kvbed
