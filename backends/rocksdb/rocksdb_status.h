// Statuses of kvbed and of RocksDB, each in the other's terms; RocksDB's own words are kept.
#pragma once

#include <rocksdb/io_status.h>
#include <rocksdb/status.h>

#include <string_view>

#include "offload/status.h"

namespace kvbed {

// For what the seam says to RocksDB. An I/O error is not marked as retryable: RocksDB would take
// further puts while its flushes go on failing.
rocksdb::IOStatus ToRocksDb(const Status& status);

// `what` was being done.
Status FromRocksDb(const rocksdb::Status& status, std::string_view what);

}  // namespace kvbed
