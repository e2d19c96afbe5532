#include "backends/rocksdb/seam_file_system.h"

#include <string>
#include <utility>

#include "backends/rocksdb/data_file.h"
#include "backends/rocksdb/metadata_file.h"
#include "backends/rocksdb/rocksdb_status.h"

namespace kvbed {
namespace {

// A blob file is as large as a memtable, and found whole when it is opened again.
constexpr uint64_t kBlobReserveBytes = uint64_t{64} << 20;

DataFileOptions DataOptions(DbFileKind kind, bool direct) {
  return {.direct = direct, .preallocate_bytes = kind == DbFileKind::kBlob ? kBlobReserveBytes : 0};
}

class SeamDirectory final : public rocksdb::FSDirectory {
 public:
  SeamDirectory(Io& io, std::string path) : io_(io), path_(std::move(path)) {}
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return ToRocksDb(io_.SyncDirectory(path_));
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }

 private:
  Io& io_;
  const std::string path_;
};

template <class File>
rocksdb::IOStatus Hand(Result<std::unique_ptr<File>> file, std::unique_ptr<File>* result) {
  if (!file.ok()) return ToRocksDb(file.status());
  *result = std::move(*file);
  return rocksdb::IOStatus::OK();
}

bool IsData(DbFileKind kind) {
  return kind == DbFileKind::kTable || kind == DbFileKind::kBlob || kind == DbFileKind::kWal;
}

}  // namespace

DbFileKind DbFileKindOf(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".sst")) return DbFileKind::kTable;
  if (name.ends_with(".blob")) return DbFileKind::kBlob;
  if (name.ends_with(".log")) return DbFileKind::kWal;
  if (name == "LOCK" || name.starts_with("LOG")) return DbFileKind::kOther;
  return DbFileKind::kMetadata;
}

SeamFileSystem::SeamFileSystem(Io& io, const SeamFileSystemOptions& options)
    : FileSystemWrapper(rocksdb::FileSystem::Default()),
      io_(io),
      options_(options),
      pool_(io, {.iodepth = options.iodepth, .memory_bytes = kDataPieces * kDataPieceBytes}) {}

rocksdb::IOStatus SeamFileSystem::NewSequentialFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSSequentialFile>* result, rocksdb::IODebugContext* debug) {
  const DbFileKind kind = DbFileKindOf(path);
  if (kind == DbFileKind::kOther) return target()->NewSequentialFile(path, options, result, debug);
  if (!IsData(kind)) {
    const rocksdb::IOStatus status = Hand(NewMetadataScanner(io_, path), result);
    // RocksDB as Debian builds it asserts that a failure to open IDENTITY is an I/O error.
    return status.ok() || status.IsIOError() ? status
                                             : rocksdb::IOStatus::IOError(status.ToString());
  }
  return Hand(NewDataScanner(io_, pool_, path, DataOptions(kind, options_.direct)), result);
}

rocksdb::IOStatus SeamFileSystem::NewRandomAccessFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* result, rocksdb::IODebugContext* debug) {
  const DbFileKind kind = DbFileKindOf(path);
  if (!IsData(kind)) return target()->NewRandomAccessFile(path, options, result, debug);
  return Hand(NewDataReader(io_, pool_, path, DataOptions(kind, options_.direct)), result);
}

rocksdb::IOStatus SeamFileSystem::NewWritableFile(const std::string& path,
                                                  const rocksdb::FileOptions& options,
                                                  std::unique_ptr<rocksdb::FSWritableFile>* result,
                                                  rocksdb::IODebugContext* debug) {
  const DbFileKind kind = DbFileKindOf(path);
  if (kind == DbFileKind::kOther) return target()->NewWritableFile(path, options, result, debug);
  if (!IsData(kind)) return Hand(NewMetadataWriter(io_, path, options), result);
  return Hand(NewDataWriter(io_, pool_, path, DataOptions(kind, options_.direct), options), result);
}

// Only for what kvbed doesn't ask of RocksDB: its own file system would go around the seam.
rocksdb::IOStatus SeamFileSystem::ReopenWritableFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, rocksdb::IODebugContext* debug) {
  if (DbFileKindOf(path) == DbFileKind::kOther) {
    return target()->ReopenWritableFile(path, options, result, debug);
  }
  return rocksdb::IOStatus::NotSupported("writing on at the end of " + path);
}

rocksdb::IOStatus SeamFileSystem::ReuseWritableFile(
    const std::string& path, const std::string& old_path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, rocksdb::IODebugContext* debug) {
  const rocksdb::IOStatus renamed = RenameFile(old_path, path, {}, debug);
  return renamed.ok() ? NewWritableFile(path, options, result, debug) : renamed;
}

rocksdb::IOStatus SeamFileSystem::NewDirectory(const std::string& path, const rocksdb::IOOptions&,
                                               std::unique_ptr<rocksdb::FSDirectory>* result,
                                               rocksdb::IODebugContext*) {
  *result = std::make_unique<SeamDirectory>(io_, path);
  return rocksdb::IOStatus::OK();
}

rocksdb::IOStatus SeamFileSystem::DeleteFile(const std::string& path, const rocksdb::IOOptions&,
                                             rocksdb::IODebugContext*) {
  return ToRocksDb(io_.Unlink(path));
}

rocksdb::IOStatus SeamFileSystem::Truncate(const std::string& path, size_t,
                                           const rocksdb::IOOptions&, rocksdb::IODebugContext*) {
  return rocksdb::IOStatus::NotSupported("cutting " + path);
}

rocksdb::IOStatus SeamFileSystem::CreateDir(const std::string& path, const rocksdb::IOOptions&,
                                            rocksdb::IODebugContext*) {
  return ToRocksDb(io_.MakeDirectories(path));
}

rocksdb::IOStatus SeamFileSystem::CreateDirIfMissing(const std::string& path,
                                                     const rocksdb::IOOptions&,
                                                     rocksdb::IODebugContext*) {
  return ToRocksDb(io_.MakeDirectories(path));
}

rocksdb::IOStatus SeamFileSystem::RenameFile(const std::string& from, const std::string& to,
                                             const rocksdb::IOOptions& options,
                                             rocksdb::IODebugContext* debug) {
  if (DbFileKindOf(from) == DbFileKind::kOther) {
    return target()->RenameFile(from, to, options, debug);
  }
  return ToRocksDb(io_.Rename(from, to, RenameMode::kReplace));
}

}  // namespace kvbed
