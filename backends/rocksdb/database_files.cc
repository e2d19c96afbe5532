#include "backends/rocksdb/database_files.h"

#include <algorithm>
#include <string_view>

namespace kvbed {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

// RocksDB's file/filename.cc.
bool IsDatabaseName(std::string_view name) {
  for (const std::string_view whole : {"CURRENT", "IDENTITY", "LOCK", "LOG", "LOG.old"}) {
    if (name == whole) return true;
  }
  for (const std::string_view start : {"MANIFEST-", "OPTIONS-", "LOG.old."}) {
    if (name.starts_with(start) && IsNumber(name.substr(start.size()))) return true;
  }
  for (const std::string_view end : {".sst", ".blob", ".log", ".dbtmp"}) {
    if (!name.ends_with(end)) continue;
    std::string_view stem = name.substr(0, name.size() - end.size());
    if (stem.starts_with("OPTIONS-")) stem.remove_prefix(8);
    return IsNumber(stem);
  }
  return false;
}

bool IsDatabaseEntry(const DirectoryEntry& entry) {
  return !entry.is_directory && IsDatabaseName(entry.name);
}

}  // namespace kvbed
