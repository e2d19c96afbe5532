// Values as people write them: counts of tokens, lists of contexts, of sizes, of ids and of names.
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

// Sizes of one I/O as fio takes them: "64k,1m", "64KiB", "64k-4m*2"; k is 1024. Likewise.
Result<std::vector<uint64_t>> ParseBlockSizes(std::string_view text);

// Queue depths: "1,4,16,64", "1-64*2". Likewise.
Result<std::vector<uint64_t>> ParseDepths(std::string_view text);

// "read,write": each one of `allowed`, none twice. The refusal names the nearest right one.
Result<std::vector<std::string>> ParseChoices(std::string_view text,
                                              const std::vector<std::string>& allowed);

// "504,3575,282": token ids, at least one.
Result<std::vector<int32_t>> ParseTokenIds(std::string_view text);

}  // namespace kvbed
