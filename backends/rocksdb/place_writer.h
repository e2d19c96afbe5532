// Writes where records are to RocksDB on a thread of its own, while the next ones are on their way.
// It doesn't know what a place is.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/record_index.h"
#include "backends/rocksdb/catalog.h"
#include "backends/rocksdb/database.h"

namespace kvbed {

class PlaceWriter {
 public:
  // `database` must outlive it.
  explicit PlaceWriter(Database& database);
  ~PlaceWriter();  // after what was noted

  void NotePut(const RecordId& id, const IdEntry& entry);
  void NoteFreed(const std::vector<FreedRecord>& freed);
  // Waits until all that was noted is written; the first error of any write, for good.
  Status Wait();
  Status failure() const;

 private:
  struct Change {
    std::string key;
    std::string value;  // empty: the key goes
  };
  void Run();
  void Add(Change change);

  Database& database_;
  mutable std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable written_;
  std::deque<Change> changes_;
  bool writing_ = false;
  bool stop_ = false;
  Status failure_;
  std::thread thread_;
};

}  // namespace kvbed
