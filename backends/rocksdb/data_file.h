// RocksDB's data files (tables, blobs, the write-ahead log) over the seam: direct I/O inside, plain
// files to RocksDB, which would otherwise align, merge and copy by itself (measured: put 1.41
// against 0.98 GB/s). Writes go on behind the caller, reads are split and many are in flight. Reads
// straight into RocksDB's aligned buffers save a copy, and are slower still: memory of small pages
// costs the device more than the copy (measured: 0.48 to 0.78 of fio against 0.66 to 1.13).
#pragma once

#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "backends/io.h"
#include "backends/queue_pool.h"
#include "offload/status.h"

namespace kvbed {

// What a transfer moves at most; each borrowed queue has memory for `kDataPieces` of them.
inline constexpr uint64_t kDataPieceBytes = uint64_t{1} << 20;
inline constexpr uint32_t kDataPieces = 16;

struct DataFileOptions {
  bool direct = true;
  // A file that grows takes this much from the filesystem at a time and gives the rest back when it
  // is closed; 0: nothing ahead.
  uint64_t preallocate_bytes = 0;
};

// The pool's queues have kDataPieces * kDataPieceBytes of memory. `io` and `pool` must outlive the
// files.
Result<std::unique_ptr<rocksdb::FSWritableFile>> NewDataWriter(
    Io& io, QueuePool& pool, const std::string& path, const DataFileOptions& options,
    const rocksdb::FileOptions& file_options);

// Of a file that doesn't grow any more.
Result<std::unique_ptr<rocksdb::FSRandomAccessFile>> NewDataReader(Io& io, QueuePool& pool,
                                                                   const std::string& path,
                                                                   const DataFileOptions& options);

// Of a log that is read from its start.
Result<std::unique_ptr<rocksdb::FSSequentialFile>> NewDataScanner(Io& io, QueuePool& pool,
                                                                  const std::string& path,
                                                                  const DataFileOptions& options);

}  // namespace kvbed
