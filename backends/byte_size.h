// Sizes as people write them: "512", "64k", "1.5G", "256MiB".
// It doesn't know what is measured; the caller names it.
#pragma once

#include <cstdint>
#include <string_view>

#include "offload/status.h"

namespace kvbed {

// k, M, G and T, with or without a B, are powers of 1000; KiB, MiB, GiB and TiB, with or without
// the B, powers of 1024; case doesn't matter. Invalid argument otherwise, and above 2^63 - 1; the
// message starts with `what` and lists the suffixes.
Result<uint64_t> ParseByteSize(std::string_view text, std::string_view what);

}  // namespace kvbed
