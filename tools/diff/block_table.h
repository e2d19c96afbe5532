// A paged cache's block table: which block holds which stretch of a sequence's tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offload/status.h"

namespace kvbed {

// `value`: numbers in token order, "5,3,9", or a file with them: a JSON list (or a list with one
// list in it, as a batch of one is) or text, separated by commas, spaces or line ends. Numbers
// below 0, with which engines fill what is unused, end the table. Invalid argument for an empty
// value or a wrong number in it; otherwise a file's errors, and corruption for what is in it.
Result<std::vector<uint64_t>> ReadBlockTable(const std::string& value);

}  // namespace kvbed
