// Whether memory suffices for what is about to be made, so that a context that can't fit is refused
// at once and not by the kernel's killer of processes minutes later.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "offload/status.h"

namespace kvbed {

// What the system can give this process without swapping, and its control group's limit where that
// is lower; nullopt where the system doesn't say.
std::optional<uint64_t> AvailableMemoryBytes();

// Out of space when `count` times `bytes_each` is more than nine tenths of what is available.
// `what` begins the message, as in "100 tokens".
Status CheckMemoryFor(uint64_t count, uint64_t bytes_each, std::string_view what);

}  // namespace kvbed
