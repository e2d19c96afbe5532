// The names of the files that RocksDB makes in its folder. It doesn't know what is in them.
#pragma once

#include "backends/io.h"

namespace kvbed {

bool IsDatabaseEntry(const DirectoryEntry& entry);

}  // namespace kvbed
