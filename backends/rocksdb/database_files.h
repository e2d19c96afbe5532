// The names of the files that RocksDB makes in its folder. It doesn't know what is in them.
#pragma once

#include <string_view>

#include "backends/io.h"

namespace kvbed {

bool IsDatabaseName(std::string_view name);
// A file of that name.
bool IsDatabaseEntry(const DirectoryEntry& entry);

}  // namespace kvbed
