#include "backends/rocksdb/rocksdb_status.h"

#include <fmt/format.h>

namespace kvbed {

rocksdb::IOStatus ToRocksDb(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk: return rocksdb::IOStatus::OK();
    case StatusCode::kNotFound: return rocksdb::IOStatus::PathNotFound(status.message());
    case StatusCode::kOutOfSpace: return rocksdb::IOStatus::NoSpace(status.message());
    case StatusCode::kCorruption: return rocksdb::IOStatus::Corruption(status.message());
    case StatusCode::kNotSupported: return rocksdb::IOStatus::NotSupported(status.message());
    case StatusCode::kInvalidArgument: return rocksdb::IOStatus::InvalidArgument(status.message());
    default: return rocksdb::IOStatus::IOError(status.message());
  }
}

Status FromRocksDb(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return Status::Ok();
  std::string message = fmt::format("RocksDB, {}: {}", what, status.ToString());
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kSpaceLimit)
    return Status::OutOfSpace(std::move(message));
  if (status.IsNotFound()) return Status::NotFound(std::move(message));
  if (status.IsCorruption()) return Status::Corruption(std::move(message));
  if (status.IsNotSupported()) return Status::NotSupported(std::move(message));
  if (status.IsInvalidArgument()) return Status::InvalidArgument(std::move(message));
  return Status::IoError(std::move(message));
}

}  // namespace kvbed
