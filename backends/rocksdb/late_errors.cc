#include "backends/rocksdb/late_errors.h"

#include <string>
#include <utility>

namespace kvbed {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class LateErrorsFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  using FSWritableFileOwnerWrapper::FSWritableFileOwnerWrapper;

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    return failed() ? IOStatus::OK() : Later(target()->Append(data, options, debug));
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
    return failed() ? IOStatus::OK() : Later(target()->Flush(options, debug));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return failed() ? error_ : target()->Sync(options, debug);
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return failed() ? error_ : target()->Fsync(options, debug);
  }
  IOStatus RangeSync(uint64_t offset, uint64_t bytes, const IOOptions& options,
                     IODebugContext* debug) override {
    return failed() ? IOStatus::OK() : Later(target()->RangeSync(offset, bytes, options, debug));
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    const IOStatus closed = target()->Close(options, debug);
    return failed() ? error_ : closed;
  }

 private:
  IOStatus Later(IOStatus status) {
    error_ = std::move(status);
    return IOStatus::OK();
  }
  bool failed() const { return !error_.ok(); }

  IOStatus error_;  // the first; nothing is written after it
};

class LateErrors final : public rocksdb::FileSystemWrapper {
 public:
  LateErrors() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "kvbed.LateErrors"; }

  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* debug) override {
    return Wrap(target()->NewWritableFile(path, options, result, debug), result);
  }
  IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext* debug) override {
    return Wrap(target()->ReopenWritableFile(path, options, result, debug), result);
  }
  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                             const rocksdb::FileOptions& options,
                             std::unique_ptr<rocksdb::FSWritableFile>* result,
                             IODebugContext* debug) override {
    return Wrap(target()->ReuseWritableFile(path, old_path, options, result, debug), result);
  }

 private:
  static IOStatus Wrap(IOStatus opened, std::unique_ptr<rocksdb::FSWritableFile>* file) {
    if (opened.ok()) *file = std::make_unique<LateErrorsFile>(std::move(*file));
    return opened;
  }
};

}  // namespace

std::unique_ptr<rocksdb::FileSystem> MakePosixFileSystem() {
  return std::make_unique<LateErrors>();
}

}  // namespace kvbed
