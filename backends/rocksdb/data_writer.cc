#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "backends/rocksdb/data_file.h"
#include "backends/rocksdb/rocksdb_status.h"
#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

class DataWriter final : public rocksdb::FSWritableFile {
 public:
  DataWriter(Io& io, QueuePool& pool, File file, const DataFileOptions& options,
             const rocksdb::FileOptions& file_options)
      : FSWritableFile(file_options),
        io_(io),
        pool_(pool),
        options_(options),
        file_(std::move(file)) {}

  ~DataWriter() override { Finish().IgnoreError(); }

  // RocksDB syncs its log while others write to it only where that is safe.
  bool IsSyncThreadSafe() const override { return true; }

  using FSWritableFile::Append;
  using FSWritableFile::PositionedAppend;

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions&,
                           rocksdb::IODebugContext*) override {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) Take({reinterpret_cast<const std::byte*>(data.data()), data.size()});
    return ToRocksDb(failure_);
  }

  // Only RocksDB's own direct writer cuts files.
  rocksdb::IOStatus Truncate(uint64_t size, const rocksdb::IOOptions&,
                             rocksdb::IODebugContext*) override {
    const std::lock_guard lock(mutex_);
    return size == size_bytes() ? rocksdb::IOStatus::OK()
                                : rocksdb::IOStatus::NotSupported("cutting " + file_.path());
  }

  // What was taken is on its way; RocksDB asks for no more than that.
  rocksdb::IOStatus Flush(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    const std::lock_guard lock(mutex_);
    return ToRocksDb(failure_);
  }

  rocksdb::IOStatus Sync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    const std::lock_guard lock(mutex_);
    return ToRocksDb(SyncAll());
  }

  rocksdb::IOStatus Close(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    const std::lock_guard lock(mutex_);
    return ToRocksDb(Finish());
  }

  uint64_t GetFileSize(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    const std::lock_guard lock(mutex_);
    return size_bytes();
  }

  rocksdb::IOStatus RangeSync(uint64_t, uint64_t, const rocksdb::IOOptions&,
                              rocksdb::IODebugContext*) override {
    const std::lock_guard lock(mutex_);
    return ToRocksDb(failure_);
  }

 private:
  struct Piece {
    MutableBytes memory;
    IoRequest io;
    bool in_flight = false;
  };

  uint64_t size_bytes() const { return base_ + filled_; }

  void Fail(const Status& status) {
    if (!failure_.ok() || status.ok()) return;
    failure_ = status;
    if (loan_) loan_->MarkBroken();
  }

  void Take(Bytes data) {
    while (!data.empty() && failure_.ok()) {
      if (current_ == nullptr && !NextPiece()) return;
      const size_t count = std::min<size_t>(data.size(), kDataPieceBytes - filled_);
      std::memcpy(current_->memory.data() + filled_, data.data(), count);
      filled_ += count;
      data = data.subspan(count);
      if (filled_ < kDataPieceBytes) continue;
      Write(*current_, kDataPieceBytes);
      base_ += kDataPieceBytes;
      filled_ = written_ = 0;
      current_ = nullptr;
    }
  }

  bool NextPiece() {
    if (!loan_) {
      auto loan = pool_.Borrow();
      Fail(loan.status());
      if (!failure_.ok()) return false;
      loan_.emplace(std::move(*loan));
      for (size_t i = 0; i < pieces_.size(); ++i) {
        pieces_[i].memory = loan_->memory().subspan(i * kDataPieceBytes, kDataPieceBytes);
      }
    }
    for (;;) {
      const auto idle = std::find_if(pieces_.begin(), pieces_.end(),
                                     [](const Piece& piece) { return !piece.in_flight; });
      if (idle != pieces_.end()) {
        current_ = &*idle;
        return true;
      }
      Reap();
      if (!failure_.ok()) return false;
    }
  }

  void Write(Piece& piece, uint64_t length_bytes) {
    Reserve(base_ + length_bytes);
    piece.io = IoRequest{.op = IoOp::kWrite,
                         .file = &file_,
                         .offset = base_,
                         .buffer = piece.memory.first(length_bytes),
                         .owner = &piece};
    piece.in_flight = true;
    IoRequest* const request = &piece.io;
    loan_->Submit({&request, 1});
  }

  // A filesystem without room says so when it is written.
  void Reserve(uint64_t end) {
    if (options_.preallocate_bytes == 0 || end <= reserved_ || !reserves_) return;
    const uint64_t wanted = RoundUp(end, options_.preallocate_bytes);
    reserves_ = io_.Preallocate(file_, wanted).ok();
    if (reserves_) reserved_ = wanted;
  }

  void Reap() {
    reaped_.clear();
    Fail(loan_->Reap(1, reaped_));
    for (IoRequest* request : reaped_) {
      static_cast<Piece*>(request->owner)->in_flight = false;
      Fail(request->status);
    }
  }

  void Drain() {
    while (loan_ && loan_->outstanding() > 0) Reap();
  }

  // The started piece too, padded to whole pages; it stays, to be written again when it grew.
  void WriteTail() {
    Drain();
    if (!failure_.ok() || current_ == nullptr || filled_ == written_) return;
    const uint64_t length_bytes =
        options_.direct ? RoundUp(filled_, uint64_t{file_.alignment_bytes()}) : filled_;
    std::memset(current_->memory.data() + filled_, 0, length_bytes - filled_);
    Write(*current_, length_bytes);
    reserved_ = std::max(reserved_, base_ + length_bytes);
    Drain();
    written_ = filled_;
  }

  Status SyncAll() {
    WriteTail();
    if (failure_.ok()) Fail(CutToSize());
    if (!failure_.ok()) return failure_;
    IoRequest sync{.op = IoOp::kDatasync, .file = &file_};
    if (loan_) {
      Fail(loan_->MoveAlone(sync));
    } else {
      Fail(io_.SyncFile(file_));
    }
    return failure_;
  }

  // What was reserved, and the padding.
  Status CutToSize() {
    if (reserved_ <= size_bytes()) return Status::Ok();
    reserved_ = 0;
    return io_.Truncate(file_, size_bytes());
  }

  Status Finish() {
    if (!file_.is_open()) return failure_;
    WriteTail();
    Drain();
    if (failure_.ok()) Fail(CutToSize());
    loan_.reset();
    current_ = nullptr;
    file_ = File();
    return failure_;
  }

  Io& io_;
  QueuePool& pool_;
  const DataFileOptions options_;

  std::mutex mutex_;  // guards all below
  File file_;
  std::optional<QueuePool::Loan> loan_;  // from the first byte to the end
  std::array<Piece, kDataPieces> pieces_;
  Piece* current_ = nullptr;  // being filled
  uint64_t base_ = 0;         // where it goes in the file
  uint64_t filled_ = 0;
  uint64_t written_ = 0;   // of it, by WriteTail
  uint64_t reserved_ = 0;  // the file's length on disk, where it is beyond its size
  bool reserves_ = true;
  std::vector<IoRequest*> reaped_;
  Status failure_;  // of any step; nothing later is taken for a success
};

}  // namespace

Result<std::unique_ptr<rocksdb::FSWritableFile>> NewDataWriter(
    Io& io, QueuePool& pool, const std::string& path, const DataFileOptions& options,
    const rocksdb::FileOptions& file_options) {
  KVBED_ASSIGN_OR_RETURN(File file,
                         io.Open(path, {.write = true, .create = true, .direct = options.direct}));
  KVBED_ASSIGN_OR_RETURN(const uint64_t size_bytes, io.FileSize(file));
  if (size_bytes > 0) KVBED_RETURN_IF_ERROR(io.Truncate(file, 0));
  return std::unique_ptr<rocksdb::FSWritableFile>(
      std::make_unique<DataWriter>(io, pool, std::move(file), options, file_options));
}

}  // namespace kvbed
