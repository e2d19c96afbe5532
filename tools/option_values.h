// Values as people write them: counts of tokens, lists of contexts, lists of ids.
// Each parser names the value and a right form when it refuses one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "offload/status.h"

namespace kvbed {

// "4096", "4k" = 4096, "1m" = 1048576. At least 1.
Result<uint64_t> ParseTokenCount(std::string_view text);

// The same, and "0".
Result<uint64_t> ParseTokenCountOrZero(std::string_view text);

// "1k,4k"; "1k-128k*2" doubles; "88-256+8" steps. Ascending ranges; at most 4096 entries.
Result<std::vector<uint64_t>> ParseTokenCounts(std::string_view text);

// "504,3575,282": token ids, at least one.
Result<std::vector<int32_t>> ParseTokenIds(std::string_view text);

}  // namespace kvbed
