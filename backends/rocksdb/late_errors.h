// RocksDB's own file system with one difference: a write that fails is told by the file's next sync
// or its close. RocksDB as Debian builds it keeps its assertions, and one of them ends the process
// when a file is used again after a failed write (file/writable_file_writer.h), which a flush on a
// full disk does. Nothing counts as durable before a sync, so nothing is lost by telling it then.
#pragma once

#include <rocksdb/file_system.h>

#include <memory>

namespace kvbed {

std::unique_ptr<rocksdb::FileSystem> MakePosixFileSystem();

}  // namespace kvbed
