#include "offload/model_digests.h"

namespace kvbed {

Digest128 ModelDigests::Fingerprint() const {
  Xxh3Stream stream;
  stream.Add(weights.bytes);
  stream.Add(config.bytes);
  stream.Add(tokenizer.bytes);
  return stream.Finish128();
}

}  // namespace kvbed
