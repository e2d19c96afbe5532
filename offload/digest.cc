#include "offload/digest.h"

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "offload/digest_avx2.h"

namespace kvbed {
namespace {

Digest128 Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Digest128 digest;
  std::memcpy(digest.bytes.data(), canonical.digest, sizeof(canonical.digest));
  return digest;
}

}  // namespace

uint64_t Xxh3_64(Bytes bytes) {
#ifdef KVBED_DIGEST_AVX2
  // Small inputs are in the cache.
  if (bytes.size() >= 1024 && __builtin_cpu_supports("avx2")) {
    return Xxh3_64Avx2(bytes.data(), bytes.size());
  }
#endif
  return XXH3_64bits(bytes.data(), bytes.size());
}

Digest128 Xxh3_128(Bytes bytes) { return Canonical(XXH3_128bits(bytes.data(), bytes.size())); }

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) {
  KVBED_CHECK(state_ != nullptr);
  KVBED_CHECK(XXH3_128bits_reset(state_) == XXH_OK);
}

Xxh3Stream::~Xxh3Stream() { XXH3_freeState(state_); }

void Xxh3Stream::Add(Bytes bytes) {
  KVBED_CHECK(XXH3_128bits_update(state_, bytes.data(), bytes.size()) == XXH_OK);
}

void Xxh3Stream::AddField(Bytes bytes) {
  std::array<std::byte, 8> length;
  StoreLe<uint64_t>(length, 0, bytes.size());
  Add(length);
  Add(bytes);
}

// The 64-bit and the 128-bit digest share one state; only the final step differs.
uint64_t Xxh3Stream::Finish64() const { return XXH3_64bits_digest(state_); }

Digest128 Xxh3Stream::Finish128() const { return Canonical(XXH3_128bits_digest(state_)); }

}  // namespace kvbed
