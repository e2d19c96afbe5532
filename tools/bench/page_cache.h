// What the page cache holds of a folder's files, and dropping it. It doesn't know what is in them.
#pragma once

#include <cstdint>
#include <string>

#include "offload/status.h"

namespace kvbed {

struct CachedBytes {
  uint64_t resident_bytes = 0;  // whole pages
  std::string method;           // "cachestat", or "mincore" where the kernel has none
};

// Of all regular files in `folder` and below, but for those below `excluded`.
Result<CachedBytes> CachedBytesOf(const std::string& folder, const std::string& excluded);

// Writes the same files to the device and asks the kernel to drop their pages. That is advice:
// CachedBytesOf() says what became of it.
Status DropFromPageCache(const std::string& folder, const std::string& excluded);

}  // namespace kvbed
