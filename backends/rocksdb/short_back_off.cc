#include "backends/rocksdb/short_back_off.h"

#include <rocksdb/system_clock.h>

#include <utility>

namespace kvbed {
namespace {

// db/db_impl/db_impl_compaction_flush.cc of RocksDB, BackgroundCallFlush and
// BackgroundCallCompaction.
constexpr int kBackOffUs = 1'000'000;
constexpr int kMomentUs = 10'000;

class ShortBackOffClock final : public rocksdb::SystemClockWrapper {
 public:
  using SystemClockWrapper::SystemClockWrapper;
  const char* Name() const override { return "kvbed.ShortBackOffClock"; }
  void SleepForMicroseconds(int micros) override {
    target_->SleepForMicroseconds(micros == kBackOffUs ? kMomentUs : micros);
  }
};

class ShortBackOffEnv final : public rocksdb::EnvWrapper {
 public:
  explicit ShortBackOffEnv(std::unique_ptr<rocksdb::Env> env) : EnvWrapper(std::move(env)) {
    system_clock_.reset(new ShortBackOffClock(system_clock_));
  }
  const char* Name() const override { return "kvbed.ShortBackOffEnv"; }
};

}  // namespace

std::unique_ptr<rocksdb::Env> WithShortBackOff(std::unique_ptr<rocksdb::Env> env) {
  return std::make_unique<ShortBackOffEnv>(std::move(env));
}

}  // namespace kvbed
