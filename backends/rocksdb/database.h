// One RocksDB database as kvbed uses it: opened over the seam or over RocksDB's own file system,
// with its column families, its background errors and what it says of itself. It doesn't know
// requests or channels.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/statistics.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/disk_reserve.h"
#include "backends/io.h"
#include "backends/rocksdb/crc32c.h"
#include "backends/rocksdb/seam_file_system.h"
#include "backends/store_spec.h"
#include "offload/block_store.h"
#include "offload/status.h"

namespace kvbed {

struct DatabaseOptions {
  std::string folder;  // the store's
  std::string path;
  bool create = false;
  bool write = false;
  bool direct = true;
  StoreSettings settings;  // layout, wal, fs, crc, iodepth
};

// The column families. Each record's key is its encoded id.
enum class DbFamily { kManifests, kIds, kRecords };

class Database {
 public:
  // `io` must outlive it. Not found when there is none and none is to be made; invalid argument
  // when it has another layout than the settings ask for. settings.layout is what it has, on
  // return.
  static Result<std::unique_ptr<Database>> Open(Io& io, DatabaseOptions options);
  ~Database();

  RecordLayout layout() const { return layout_; }
  bool wal() const { return options_.settings.wal == WalMode::kOn; }

  // A value, or not found.
  Result<std::string> Get(DbFamily family, rocksdb::Slice key);
  // For the keys of a batch; `failed` is any status but ok and not found.
  std::vector<rocksdb::Status> MultiGet(DbFamily family, const std::vector<rocksdb::Slice>& keys,
                                        std::vector<rocksdb::PinnableSlice>& values);
  Status Write(rocksdb::WriteBatch& batch, bool sync);
  rocksdb::ColumnFamilyHandle* family(DbFamily family) const;
  std::vector<std::string> Keys(DbFamily family, Status& status);

  // What was written before becomes durable: the memtables as files, or the log synced.
  Status MakeDurable(const std::vector<DbFamily>& families);
  // Writes what memtables hold to files, so that it is read from there.
  Status FlushAll(bool wait);
  bool HasUnflushed() const;

  // After deletes between two keys: their files go where nothing else is in them. When garbage is
  // at least as large as what lives, everything that lives is rewritten, so that no more is written
  // than comes back.
  Status CollectGarbage(const std::string& first_key, const std::string& last_key);

  // Room for a removal on a full disk: kept from the time that a store is open, used when something
  // is removed. For a database that is written.
  void KeepRoom() const { reserve_.Take(); }
  void MakeRoom() const { reserve_.ReleaseWhenFull(); }

  // The first error of a flush or compaction in the background; puts may go on returning ok while
  // it lasts. Ok once RocksDB recovered.
  Status BackgroundError() const;

  uint64_t MemtableBytes() const;
  uint64_t FileBytes() const;
  // Live blob files by number, for finding a record in them.
  std::vector<std::string> BlobFiles() const;
  IoQueueInfo queue_info() const;
  // To logs, tables and blobs since it was opened, by RocksDB's count.
  uint64_t WrittenBytes() const;
  // Version, options, statistics, garbage.
  std::vector<std::pair<std::string, std::string>> Details() const;
  std::vector<std::string> Warnings() const;

 private:
  class Listener;

  explicit Database(DatabaseOptions options)
      : options_(std::move(options)), reserve_(options_.folder) {}
  Status DoOpen(Io& io);
  Status CheckLayout();
  // In software RocksDB's checksums would be most of a read's time, and each record is verified by
  // its own digests.
  bool VerifiesChecksums() const {
    return crc_.fast || options_.settings.crc == DbChecksum::kStock;
  }
  uint64_t Property(DbFamily family, const std::string& name) const;
  uint64_t Ticker(uint32_t ticker) const;

  DatabaseOptions options_;
  const DiskReserve reserve_;
  RecordLayout layout_ = RecordLayout::kBlob;
  std::optional<Crc32cChoice> crc_choice_;
  Crc32cInEffect crc_;

  // Closed last to first: RocksDB crashes when its environment goes before it.
  std::shared_ptr<SeamFileSystem> seam_;  // null with fs=posix
  std::unique_ptr<rocksdb::Env> env_;
  std::shared_ptr<Listener> listener_;
  std::shared_ptr<rocksdb::Statistics> statistics_;
  std::shared_ptr<rocksdb::SstFileManager> file_manager_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;

  struct GarbageCollection {
    uint64_t runs = 0;
    uint64_t read_bytes = 0;
    uint64_t written_bytes = 0;
    uint64_t freed_bytes = 0;
  };
  mutable std::mutex mutex_;
  GarbageCollection collected_;  // guarded by mutex_
};

}  // namespace kvbed
