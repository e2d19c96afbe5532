#include "backends/rocksdb/metadata_file.h"

#include <algorithm>
#include <utility>

#include "backends/rocksdb/rocksdb_status.h"

namespace kvbed {
namespace {

Result<std::unique_ptr<IoQueue>> OpenSmallQueue(Io& io) {
  return io.OpenQueue({.iodepth = 1, .synchronous = true, .lendable = true});
}

class MetadataWriter final : public rocksdb::FSWritableFile {
 public:
  MetadataWriter(Io& io, File file, std::unique_ptr<IoQueue> queue,
                 const rocksdb::FileOptions& file_options)
      : FSWritableFile(file_options), io_(io), file_(std::move(file)), queue_(std::move(queue)) {}

  using FSWritableFile::Append;
  using FSWritableFile::PositionedAppend;

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions&,
                           rocksdb::IODebugContext*) override {
    // A write only reads its buffer.
    auto* const bytes = reinterpret_cast<std::byte*>(const_cast<char*>(data.data()));
    IoRequest write{
        .op = IoOp::kWrite, .file = &file_, .offset = size_bytes_, .buffer = {bytes, data.size()}};
    const Status status = MoveAlone(*queue_, write);
    if (status.ok()) size_bytes_ += data.size();
    return ToRocksDb(status);
  }

  rocksdb::IOStatus Truncate(uint64_t size, const rocksdb::IOOptions&,
                             rocksdb::IODebugContext*) override {
    const Status status = io_.Truncate(file_, size);
    if (status.ok()) size_bytes_ = size;
    return ToRocksDb(status);
  }

  rocksdb::IOStatus Flush(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }

  rocksdb::IOStatus Sync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return ToRocksDb(io_.SyncFile(file_));
  }

  rocksdb::IOStatus Close(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    file_ = File();
    return rocksdb::IOStatus::OK();
  }

  uint64_t GetFileSize(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return size_bytes_;
  }

 private:
  Io& io_;
  File file_;
  std::unique_ptr<IoQueue> queue_;
  uint64_t size_bytes_ = 0;
};

class MetadataScanner final : public rocksdb::FSSequentialFile {
 public:
  MetadataScanner(File file, uint64_t file_bytes, std::unique_ptr<IoQueue> queue)
      : file_(std::move(file)), file_bytes_(file_bytes), queue_(std::move(queue)) {}

  rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions&, rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext*) override {
    const uint64_t count = std::min<uint64_t>(n, file_bytes_ - std::min(file_bytes_, offset_));
    IoRequest read{.op = IoOp::kRead,
                   .file = &file_,
                   .offset = offset_,
                   .buffer = {reinterpret_cast<std::byte*>(scratch), count}};
    const Status status = MoveAlone(*queue_, read);
    *result = rocksdb::Slice(scratch, status.ok() ? count : 0);
    if (status.ok()) offset_ += count;
    return ToRocksDb(status);
  }

  rocksdb::IOStatus Skip(uint64_t n) override {
    offset_ += n;
    return rocksdb::IOStatus::OK();
  }

 private:
  const File file_;
  const uint64_t file_bytes_;
  std::unique_ptr<IoQueue> queue_;
  uint64_t offset_ = 0;
};

}  // namespace

Result<std::unique_ptr<rocksdb::FSWritableFile>> NewMetadataWriter(
    Io& io, const std::string& path, const rocksdb::FileOptions& file_options) {
  KVBED_ASSIGN_OR_RETURN(File file, io.Open(path, {.write = true, .create = true}));
  KVBED_ASSIGN_OR_RETURN(const uint64_t size_bytes, io.FileSize(file));
  if (size_bytes > 0) KVBED_RETURN_IF_ERROR(io.Truncate(file, 0));
  KVBED_ASSIGN_OR_RETURN(auto queue, OpenSmallQueue(io));
  return std::unique_ptr<rocksdb::FSWritableFile>(
      std::make_unique<MetadataWriter>(io, std::move(file), std::move(queue), file_options));
}

Result<std::unique_ptr<rocksdb::FSSequentialFile>> NewMetadataScanner(Io& io,
                                                                      const std::string& path) {
  KVBED_ASSIGN_OR_RETURN(File file, io.Open(path, {}));
  KVBED_ASSIGN_OR_RETURN(const uint64_t size_bytes, io.FileSize(file));
  KVBED_ASSIGN_OR_RETURN(auto queue, OpenSmallQueue(io));
  return std::unique_ptr<rocksdb::FSSequentialFile>(
      std::make_unique<MetadataScanner>(std::move(file), size_bytes, std::move(queue)));
}

}  // namespace kvbed
