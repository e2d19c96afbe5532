// Finds the one bit whose flip gives bytes a wanted XXH3-64 digest, in time that allows it for
// whole slices of a record. It doesn't know what the bytes are.
#pragma once

#include <cstdint>
#include <optional>

#include "offload/bytes.h"

namespace kvbed {

// At most this many bytes are searched: about 0.3 s.
inline constexpr uint64_t kFlippedBitBytesMax = uint64_t{256} << 10;

// The bit, counted from bit 0 of byte 0, whose flip in `bytes` gives them the digest `wanted`; null
// when there is none. `bytes` are changed meanwhile and restored.
std::optional<uint64_t> FindFlippedBit(MutableBytes bytes, uint64_t wanted);

}  // namespace kvbed
