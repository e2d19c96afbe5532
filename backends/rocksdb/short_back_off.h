// RocksDB sleeps for a second after a failed flush "in case this is temporary", also when it is
// about to be closed. To kvbed an error is final, and the store refuses everything after it; so the
// second becomes a moment. It doesn't know stores.
#pragma once

#include <rocksdb/env.h>

#include <memory>

namespace kvbed {

// `env` with such a clock.
std::unique_ptr<rocksdb::Env> WithShortBackOff(std::unique_ptr<rocksdb::Env> env);

}  // namespace kvbed
