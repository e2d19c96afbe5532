// XXH3 digests of bytes, one-shot and streaming, through xxHash's CPU dispatch where it has one.
// Digests are values that compare; what they cover is said by who keeps them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "offload/bytes.h"

struct XXH3_state_s;

namespace kvbed {

// XXH3-128 in canonical (big-endian) byte order, as `xxhsum -H128` prints it.
struct Digest128 {
  std::array<std::byte, 16> bytes{};
  std::string ToHex() const { return kvbed::ToHex(bytes); }
  auto operator<=>(const Digest128&) const = default;
};

uint64_t Xxh3_64(Bytes bytes);
Digest128 Xxh3_128(Bytes bytes);

// Streaming form: the digest of the concatenation of all that was added.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(const Xxh3Stream&) = delete;
  Xxh3Stream& operator=(const Xxh3Stream&) = delete;

  void Add(Bytes bytes);
  // A length-prefixed field, so that "ab"+"c" and "a"+"bc" differ.
  void AddField(Bytes bytes);
  uint64_t Finish64() const;
  Digest128 Finish128() const;

 private:
  XXH3_state_s* state_;
};

}  // namespace kvbed
