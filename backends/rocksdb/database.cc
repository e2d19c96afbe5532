#include "backends/rocksdb/database.h"

#include <fmt/format.h>
#include <malloc.h>
#include <rocksdb/listener.h>
#include <rocksdb/metadata.h>
#include <rocksdb/sst_file_manager.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#include <algorithm>
#include <array>

#include "backends/disk_space.h"
#include "backends/rocksdb/database_files.h"
#include "backends/rocksdb/late_errors.h"
#include "backends/rocksdb/rocksdb_status.h"
#include "backends/rocksdb/short_back_off.h"

namespace kvbed {
namespace {

// Records wait in memtables until one is full; a few of them, so that puts go on while one is
// written.
constexpr uint64_t kMemtableBytes = uint64_t{256} << 20;
constexpr int kMemtables = 4;
// Above a memtable's size, so that each becomes one blob file: a MultiGet reads file after file.
constexpr uint64_t kBlobFileBytes = uint64_t{1} << 30;
// Below the smallest blob, so that RocksDB hands blobs on as they are; 48 bytes of header go by
// themselves (measured: with the default of 1 MiB smaller values are copied first).
constexpr uint64_t kWriterBufferBytes = uint64_t{64} << 10;
// OpenForReadOnly with all files open (-1) and a compacted table says "not found" for every blob
// that Get asks for (RocksDB 7.8); with a limit it doesn't.
constexpr int kReaderOpenFiles = 1000;
constexpr std::string_view kLayoutKey = "kvbed.layout";

constexpr std::array<std::pair<DbFamily, const char*>, 3> kFamilies{{
    {DbFamily::kManifests, "manifests"},
    {DbFamily::kIds, "ids"},
    {DbFamily::kRecords, "records"},
}};

// Memtables are made of allocations as large as records. glibc would map and unmap each, and the
// kernel would zero every page of it again (measured: 35 % of a put's time), so it is told to keep
// them. For the whole process, and only when a database is written.
void KeepLargeAllocations() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 64 << 20);
}

rocksdb::ColumnFamilyOptions FamilyOptions(DbFamily family) {
  rocksdb::ColumnFamilyOptions options;
  options.compression = rocksdb::kNoCompression;
  if (family != DbFamily::kRecords) return options;
  options.write_buffer_size = kMemtableBytes;
  options.max_write_buffer_number = kMemtables;
  options.enable_blob_files = true;
  options.min_blob_size = 0;
  options.blob_file_size = kBlobFileBytes;
  options.blob_compression_type = rocksdb::kNoCompression;
  // CollectGarbage does it, within a bound; a compaction in the background would rewrite the
  // oldest files whenever it runs.
  options.enable_blob_garbage_collection = false;
  return options;
}

// RocksDB's own log, which nobody reads: its text would be bytes on the disk that no record needs,
// 30 KB with each change, and on a full disk the second line of it ends the process, since RocksDB
// as Debian builds it keeps its assertions (late_errors.h). Errors are told by what fails.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

constexpr std::string_view kWhatToDo = "put it back from a copy; nothing was changed";

// RocksDB takes a database without CURRENT, or with one that leads nowhere, for none, makes a new
// one in its place and removes the tables and blobs of the one that was there; its own file system
// waits for ever for the other end of a pipe.
Status CheckIsWhole(Io& io, const std::string& path) {
  const auto entries = io.List(path);
  if (!entries.ok()) return Status::Ok();  // opening it says what is wrong
  bool has_current = false, has_manifest = false, has_data = false;
  for (const DirectoryEntry& entry : *entries) {
    if ((entry.is_special || entry.is_directory) && IsDatabaseName(entry.name)) {
      return Status::Corruption(fmt::format(
          "{}/{} is no file but a {}: {}", path, entry.name,
          entry.is_directory ? "folder" : "link, a pipe, a socket or a device", kWhatToDo));
    }
    has_current |= entry.name == "CURRENT";
    has_manifest |= entry.name.starts_with("MANIFEST-");
    has_data |= entry.name.ends_with(".sst") || entry.name.ends_with(".blob");
  }
  if (has_data && !has_current) {
    return Status::Corruption(
        fmt::format("{} has RocksDB's tables but no CURRENT, which says what counts of them: {}",
                    path, kWhatToDo));
  }
  if (has_current && !has_manifest) {
    return Status::Corruption(fmt::format(
        "{} has no MANIFEST, RocksDB's list of what counts of its files: {}", path, kWhatToDo));
  }
  return Status::Ok();
}

}  // namespace

// Runs on RocksDB's threads.
class Database::Listener final : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    const std::lock_guard lock(mutex_);
    if (!error_.ok()) return;
    const bool flush = reason == rocksdb::BackgroundErrorReason::kFlush ||
                       reason == rocksdb::BackgroundErrorReason::kFlushNoWAL;
    error_ = FromRocksDb(
        *error, flush ? "flushing a memtable in the background" : "working in the background");
  }
  void OnErrorRecoveryCompleted(rocksdb::Status old_error) override {
    old_error.PermitUncheckedError();
    const std::lock_guard lock(mutex_);
    error_ = Status::Ok();
  }
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override {
    if (!info.new_bg_error.ok()) return;
    const std::lock_guard lock(mutex_);
    error_ = Status::Ok();
  }
  Status error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  Status error_;
};

Result<std::unique_ptr<Database>> Database::Open(Io& io, DatabaseOptions options) {
  std::unique_ptr<Database> database(new Database(std::move(options)));
  KVBED_RETURN_IF_ERROR(database->DoOpen(io));
  KVBED_RETURN_IF_ERROR(database->CheckLayout());
  return database;
}

Status Database::DoOpen(Io& io) {
  const StoreSettings& settings = options_.settings;
  const Crc32c wanted = settings.crc == DbChecksum::kFast ? Crc32c::kFast : Crc32c::kStock;
  crc_choice_ = Crc32cChoice::Hold(wanted);
  if (!crc_choice_) {
    return Status::InvalidArgument(
        "crc=fast and crc=stock exclude each other in one process: RocksDB has one function for "
        "all databases; use one of them, or another process");
  }
  if (options_.write) {
    KeepLargeAllocations();
    MakeRoom();  // an opening writes some 64 KiB
  }
  KVBED_RETURN_IF_ERROR(CheckIsWhole(io, options_.path));
  rocksdb::DBOptions db;
  if (settings.fs == DbFileSystem::kSeam) {
    seam_ = std::make_shared<SeamFileSystem>(
        io, SeamFileSystemOptions{.direct = options_.direct, .iodepth = settings.iodepth});
    env_ = WithShortBackOff(rocksdb::NewCompositeEnv(seam_));
    db.writable_file_max_buffer_size = kWriterBufferBytes;
  } else {
    env_ = rocksdb::NewCompositeEnv(MakePosixFileSystem());
    // It would preallocate as much as a memtable holds for each log, and on a small disk take all
    // there is.
    db.allow_fallocate = false;
  }
  db.env = env_.get();
  listener_ = std::make_shared<Listener>();
  statistics_ = rocksdb::CreateDBStatistics();
  db.create_if_missing = options_.create;
  db.create_missing_column_families = options_.create;
  db.max_open_files = options_.write ? -1 : kReaderOpenFiles;
  db.listeners = {listener_};
  db.statistics = statistics_;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.info_log = std::make_shared<NoLog>();
  // Ids and records are written together and must be lost together, also without a log.
  db.atomic_flush = settings.wal == WalMode::kOff;
  // So that a database with a log opens on a full disk, for something to be removed.
  db.avoid_flush_during_recovery = true;
  // What isn't committed when a store is closed isn't wanted.
  db.avoid_flush_during_shutdown = true;
  // Recovers from a full disk by itself, some seconds after there is room again.
  file_manager_.reset(rocksdb::NewSstFileManager(db.env));
  db.sst_file_manager = file_manager_;

  std::vector<rocksdb::ColumnFamilyDescriptor> families{
      {rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}};
  for (const auto& [family, name] : kFamilies) families.emplace_back(name, FamilyOptions(family));
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      options_.write
          ? rocksdb::DB::Open(db, options_.path, families, &handles_, &opened)
          : rocksdb::DB::OpenForReadOnly(db, options_.path, families, &handles_, &opened);
  db_.reset(opened);
  Status failed = FromRocksDb(status, fmt::format("opening {}", options_.path));
  if (failed.code() == StatusCode::kOutOfSpace) {
    // A removal opens it too, and the reserve may have been gone.
    return Status::OutOfSpace(failed.message() + "; free some 64 KiB of the disk first");
  }
  // Not what was asked for but what is there: the families, say, aren't.
  const bool unfit = failed.code() == StatusCode::kInvalidArgument && !options_.create;
  if (failed.code() == StatusCode::kCorruption || unfit) {
    return Status::Corruption(failed.message() +
                              "; the database's files are damaged: put them back from a copy");
  }
  KVBED_RETURN_IF_ERROR(failed);
  crc_ = FindCrc32cInEffect();
  return Status::Ok();
}

// The layout is the database's from its making on.
Status Database::CheckLayout() {
  const rocksdb::Slice key(kLayoutKey.data(), kLayoutKey.size());
  const std::optional<RecordLayout>& asked = options_.settings.layout;
  std::string name;
  const rocksdb::Status there = db_->Get({}, db_->DefaultColumnFamily(), key, &name);
  if (there.IsNotFound() && options_.create) {
    layout_ = asked.value_or(RecordLayout::kBlob);
    rocksdb::WriteOptions write;
    write.sync = options_.settings.wal == WalMode::kOn;
    write.disableWAL = !write.sync;
    const std::string_view value = RecordLayoutName(layout_);
    KVBED_RETURN_IF_ERROR(
        FromRocksDb(db_->Put(write, db_->DefaultColumnFamily(), key, {value.data(), value.size()}),
                    "noting the layout"));
    return FlushAll(true);
  }
  KVBED_RETURN_IF_ERROR(FromRocksDb(there, "reading the layout"));
  for (const RecordLayout layout : {RecordLayout::kBlob, RecordLayout::kIndex}) {
    if (name != RecordLayoutName(layout)) continue;
    layout_ = layout;
    if (!asked || *asked == layout) return Status::Ok();
    return Status::InvalidArgument(
        fmt::format("{} has layout={}, and layout={} was asked for: leave it out, or name another "
                    "folder",
                    options_.path, name, RecordLayoutName(*asked)));
  }
  return Status::NotSupported(
      fmt::format("{} has a layout '{}' that this kvbed doesn't know", options_.path, name));
}

Database::~Database() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  // Compactions and flushes in the background end before their file system goes.
  db_->Close().PermitUncheckedError();
}

rocksdb::ColumnFamilyHandle* Database::family(DbFamily family) const {
  return handles_[1 + static_cast<size_t>(family)];
}

Result<std::string> Database::Get(DbFamily which, rocksdb::Slice key) {
  std::string value;
  const rocksdb::Status status = db_->Get({}, family(which), key, &value);
  KVBED_RETURN_IF_ERROR(FromRocksDb(status, "reading"));
  return value;
}

std::vector<rocksdb::Status> Database::MultiGet(DbFamily which,
                                                const std::vector<rocksdb::Slice>& keys,
                                                std::vector<rocksdb::PinnableSlice>& values) {
  rocksdb::ReadOptions read;
  read.verify_checksums = VerifiesChecksums();
  read.fill_cache = false;
  std::vector<rocksdb::Status> statuses(keys.size());
  values.resize(keys.size());
  db_->MultiGet(read, family(which), keys.size(), keys.data(), values.data(), statuses.data());
  const auto failed = [](const rocksdb::Status& status) {
    return !status.ok() && !status.IsNotFound();
  };
  if (std::none_of(statuses.begin(), statuses.end(), failed)) return statuses;
  // One key's error can leave others marked ok with what isn't theirs (fixed in RocksDB 9.2), so
  // each is asked for by itself.
  for (size_t i = 0; i < keys.size(); ++i) {
    values[i].Reset();
    statuses[i] = db_->Get(read, family(which), keys[i], &values[i]);
  }
  return statuses;
}

// Debian's library keeps its assertions: after a failed write or sync of the log, using it again
// ends the process. So nothing is asked of a database that has failed.
Status Database::Write(rocksdb::WriteBatch& batch, bool sync) {
  KVBED_RETURN_IF_ERROR(BackgroundError());
  rocksdb::WriteOptions write;
  write.disableWAL = options_.settings.wal == WalMode::kOff;
  write.sync = sync && !write.disableWAL;
  return FromRocksDb(db_->Write(write, &batch), "writing");
}

std::vector<std::string> Database::Keys(DbFamily which, Status& status) {
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(read, family(which)));
  std::vector<std::string> keys;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    keys.push_back(iterator->key().ToString());
  }
  status = FromRocksDb(iterator->status(), "listing");
  return keys;
}

Status Database::MakeDurable(const std::vector<DbFamily>& families) {
  KVBED_RETURN_IF_ERROR(BackgroundError());
  if (options_.settings.wal == WalMode::kOn) {
    return FromRocksDb(db_->SyncWAL(), "syncing the log");
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  for (const DbFamily one : families) handles.push_back(family(one));
  rocksdb::FlushOptions flush;
  flush.allow_write_stall = true;
  KVBED_RETURN_IF_ERROR(FromRocksDb(db_->Flush(flush, handles), "flushing memtables"));
  return BackgroundError();
}

Status Database::FlushAll(bool wait) {
  KVBED_RETURN_IF_ERROR(BackgroundError());
  rocksdb::FlushOptions flush;
  flush.wait = wait;
  flush.allow_write_stall = true;
  return FromRocksDb(db_->Flush(flush, handles_), "flushing memtables");
}

bool Database::HasUnflushed() const {
  return Property(DbFamily::kRecords, "rocksdb.num-entries-active-mem-table") > 0 ||
         Property(DbFamily::kRecords, "rocksdb.num-entries-imm-mem-tables") > 0;
}

Status Database::CollectGarbage(const std::string& first_key, const std::string& last_key) {
  const uint64_t bytes_before = FileBytes();
  const uint64_t read_before = Ticker(rocksdb::BLOB_DB_BLOB_FILE_BYTES_READ);
  const uint64_t written_before = Ticker(rocksdb::BLOB_DB_BLOB_FILE_BYTES_WRITTEN);
  KVBED_RETURN_IF_ERROR(FlushAll(true));
  rocksdb::CompactRangeOptions compact;
  compact.exclusive_manual_compaction = false;
  compact.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  compact.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kDisable;
  const rocksdb::Slice first(first_key), last(last_key);
  for (const DbFamily one : {DbFamily::kRecords, DbFamily::kIds}) {
    KVBED_RETURN_IF_ERROR(FromRocksDb(db_->CompactRange(compact, family(one), &first, &last),
                                      "compacting what was removed"));
  }
  const uint64_t garbage =
      Property(DbFamily::kRecords, rocksdb::DB::Properties::kLiveBlobFileGarbageSize);
  const uint64_t live = Property(DbFamily::kRecords, rocksdb::DB::Properties::kLiveBlobFileSize);
  const bool rewritten = garbage > 0 && garbage >= live - std::min(live, garbage);
  if (rewritten) {
    compact.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
    compact.blob_garbage_collection_age_cutoff = 1.0;
    KVBED_RETURN_IF_ERROR(
        FromRocksDb(db_->CompactRange(compact, family(DbFamily::kRecords), nullptr, nullptr),
                    "collecting garbage"));
  }
  const uint64_t bytes_after = FileBytes();
  const std::lock_guard lock(mutex_);
  if (rewritten) ++collected_.runs;
  collected_.read_bytes += Ticker(rocksdb::BLOB_DB_BLOB_FILE_BYTES_READ) - read_before;
  collected_.written_bytes += Ticker(rocksdb::BLOB_DB_BLOB_FILE_BYTES_WRITTEN) - written_before;
  collected_.freed_bytes += bytes_before - std::min(bytes_before, bytes_after);
  return Status::Ok();
}

Status Database::BackgroundError() const { return listener_->error(); }

uint64_t Database::MemtableBytes() const {
  return Property(DbFamily::kRecords, rocksdb::DB::Properties::kCurSizeAllMemTables);
}

// A database that is only read doesn't tell its manager of its files.
uint64_t Database::FileBytes() const {
  return options_.write ? file_manager_->GetTotalSize() : AllocatedBytes(options_.path);
}

std::vector<std::string> Database::BlobFiles() const {
  rocksdb::ColumnFamilyMetaData metadata;
  db_->GetColumnFamilyMetaData(family(DbFamily::kRecords), &metadata);
  std::vector<std::pair<uint64_t, std::string>> files;
  for (const rocksdb::BlobMetaData& blob : metadata.blob_files) {
    files.emplace_back(blob.blob_file_number,
                       fmt::format("{}/{:06}.blob", options_.path, blob.blob_file_number));
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> paths;
  for (auto& [number, path] : files) paths.push_back(std::move(path));
  return paths;
}

IoQueueInfo Database::queue_info() const {
  if (seam_ != nullptr) return seam_->queue_info();
  IoQueueInfo info;
  info.engine = IoEngine::kPsync;
  info.engine_reason = "fs=posix: RocksDB's own file system makes its own calls";
  info.registered_buffers_reason = info.registered_files_reason = info.engine_reason;
  return info;
}

uint64_t Database::Property(DbFamily which, const std::string& name) const {
  uint64_t value = 0;
  return db_->GetIntProperty(family(which), name, &value) ? value : 0;
}

uint64_t Database::WrittenBytes() const {
  return Ticker(rocksdb::WAL_FILE_BYTES) + Ticker(rocksdb::FLUSH_WRITE_BYTES) +
         Ticker(rocksdb::COMPACT_WRITE_BYTES);
}

uint64_t Database::Ticker(uint32_t ticker) const { return statistics_->getTickerCount(ticker); }

std::vector<std::pair<std::string, std::string>> Database::Details() const {
  const rocksdb::Options options = db_->GetOptions(family(DbFamily::kRecords));
  std::vector<std::pair<std::string, std::string>> details;
  const auto add = [&](const char* name, auto&& value) {
    details.emplace_back(name, fmt::format("{}", value));
  };
  add("rocksdb_version", fmt::format("{}.{}.{}", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH));
  add("layout", RecordLayoutName(layout_));
  add("wal", wal() ? "on" : "off");
  add("fs", seam_ != nullptr ? "kvbed" : "posix");
  add("crc32c", crc_.text);
  add("verify_checksums", VerifiesChecksums());
  add("write_buffer_bytes", options.write_buffer_size);
  add("write_buffers", options.max_write_buffer_number);
  add("min_blob_bytes", options.min_blob_size);
  add("blob_file_bytes", options.blob_file_size);
  add("max_open_files", options.max_open_files);
  add("atomic_flush", options.atomic_flush);
  add("io_calls", queue_info().calls);
  add("memtable_bytes", MemtableBytes());
  add("blob_files", Property(DbFamily::kRecords, rocksdb::DB::Properties::kNumBlobFiles));
  add("blob_bytes", Property(DbFamily::kRecords, rocksdb::DB::Properties::kLiveBlobFileSize));
  add("blob_garbage_bytes",
      Property(DbFamily::kRecords, rocksdb::DB::Properties::kLiveBlobFileGarbageSize));
  add("blob_bytes_written", Ticker(rocksdb::BLOB_DB_BLOB_FILE_BYTES_WRITTEN));
  add("blob_bytes_read", Ticker(rocksdb::BLOB_DB_BLOB_FILE_BYTES_READ));
  add("flush_bytes_written", Ticker(rocksdb::FLUSH_WRITE_BYTES));
  add("compaction_bytes_read", Ticker(rocksdb::COMPACT_READ_BYTES));
  add("compaction_bytes_written", Ticker(rocksdb::COMPACT_WRITE_BYTES));
  add("wal_bytes_written", Ticker(rocksdb::WAL_FILE_BYTES));
  add("stall_us", Ticker(rocksdb::STALL_MICROS));
  const std::lock_guard lock(mutex_);
  add("gc_runs", collected_.runs);
  add("gc_bytes_read", collected_.read_bytes);
  add("gc_bytes_written", collected_.written_bytes);
  add("gc_bytes_freed", collected_.freed_bytes);
  return details;
}

std::vector<std::string> Database::Warnings() const {
  std::vector<std::string> warnings;
  if (!VerifiesChecksums()) {
    warnings.push_back(
        fmt::format("RocksDB computes CRC32C in software, which caps writing at about 0.6 GB/s a "
                    "core ({}); reads leave its checksums to the records' own digests",
                    crc_.text));
  }
  return warnings;
}

}  // namespace kvbed
