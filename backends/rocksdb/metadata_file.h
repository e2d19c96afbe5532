// RocksDB's small files over the seam: buffered, one system call at a time. They are written once
// for each change of the database and read when it is opened.
#pragma once

#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "backends/io.h"
#include "offload/status.h"

namespace kvbed {

Result<std::unique_ptr<rocksdb::FSWritableFile>> NewMetadataWriter(
    Io& io, const std::string& path, const rocksdb::FileOptions& file_options);
Result<std::unique_ptr<rocksdb::FSSequentialFile>> NewMetadataScanner(Io& io,
                                                                      const std::string& path);

}  // namespace kvbed
