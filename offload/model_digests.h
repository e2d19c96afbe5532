// What identifies a model: digests of its weights, its configuration and its tokenizer, kept apart
// so that a refusal can say which of them differs, and the fingerprint over the three.
// It doesn't know how the digests are made; whoever reads model files does.
#pragma once

#include "offload/digest.h"

namespace kvbed {

struct ModelDigests {
  Digest128 weights;
  Digest128 config;
  Digest128 tokenizer;

  // XXH3-128 over the 48 bytes of weights, config, tokenizer, in this order.
  Digest128 Fingerprint() const;

  bool operator==(const ModelDigests&) const = default;
};

}  // namespace kvbed
