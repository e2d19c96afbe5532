// A rocksdb::FileSystem over the seam: tables, blobs and the write-ahead log by data_file.h; the
// files by which RocksDB knows what it has (MANIFEST, CURRENT and their like) buffered, with system
// calls, through the seam too, so that device faults and power cuts reach all that counts.
// RocksDB's text log and its lock are left to its own file system.
#pragma once

#include <rocksdb/file_system.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "backends/io.h"
#include "backends/queue_pool.h"

namespace kvbed {

struct SeamFileSystemOptions {
  bool direct = true;
  uint32_t iodepth = 16;
};

// What RocksDB does with a file, by its name.
enum class DbFileKind { kTable, kBlob, kWal, kMetadata, kOther };
DbFileKind DbFileKindOf(std::string_view path);

class SeamFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  // `io` must outlive it.
  SeamFileSystem(Io& io, const SeamFileSystemOptions& options);

  const char* Name() const override { return "kvbed"; }

  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* result,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                        rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* result,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* result,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* result,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Truncate(const std::string& path, size_t size,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDir(const std::string& path, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDirIfMissing(const std::string& path, const rocksdb::IOOptions& options,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;

  // Of the queues that moved data files.
  IoQueueInfo queue_info() const { return pool_.info(); }

 private:
  Io& io_;
  const SeamFileSystemOptions options_;
  QueuePool pool_;
};

}  // namespace kvbed
