#include "backends/rocksdb/place_writer.h"

#include <utility>

namespace kvbed {

PlaceWriter::PlaceWriter(Database& database) : database_(database), thread_([this] { Run(); }) {}

PlaceWriter::~PlaceWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  added_.notify_all();
  thread_.join();
}

void PlaceWriter::NotePut(const RecordId& id, const IdEntry& entry) {
  Add({KeyOf(id), EncodeIdEntry(entry)});
}

void PlaceWriter::NoteFreed(const std::vector<FreedRecord>& freed) {
  for (const FreedRecord& record : freed) Add({KeyOf(record.id), {}});
}

void PlaceWriter::Add(Change change) {
  {
    const std::lock_guard lock(mutex_);
    changes_.push_back(std::move(change));
  }
  added_.notify_all();
}

Status PlaceWriter::Wait() {
  std::unique_lock lock(mutex_);
  written_.wait(lock, [this] { return changes_.empty() && !writing_; });
  return failure_;
}

Status PlaceWriter::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// All that came meanwhile is one batch.
void PlaceWriter::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    added_.wait(lock, [this] { return stop_ || !changes_.empty(); });
    if (changes_.empty()) return;
    const std::deque<Change> changes = std::exchange(changes_, {});
    writing_ = true;
    lock.unlock();
    rocksdb::WriteBatch batch;
    for (const Change& change : changes) {
      if (change.value.empty()) {
        batch.Delete(database_.family(DbFamily::kIds), change.key);
      } else {
        batch.Put(database_.family(DbFamily::kIds), change.key, change.value);
      }
    }
    const Status status = database_.Write(batch, false);
    lock.lock();
    writing_ = false;
    if (failure_.ok()) failure_ = status;
    if (changes_.empty()) written_.notify_all();
  }
}

}  // namespace kvbed
