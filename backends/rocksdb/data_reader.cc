#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "backends/rocksdb/data_file.h"
#include "backends/rocksdb/rocksdb_status.h"
#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

// One stretch of a file that a caller wants, anywhere in memory.
struct Stretch {
  uint64_t offset = 0;
  MutableBytes destination;
  // Set by StretchReader. Bytes may be fewer than asked for where the file ends.
  Status status{};
  uint64_t bytes = 0;
};

// Reads aligned pieces into a borrowed queue's memory, as many at once as there is room for, and
// copies each to where it is wanted while others are on their way.
class StretchReader {
 public:
  StretchReader(const File& file, uint64_t file_bytes, QueuePool::Loan& loan)
      : file_(file), file_bytes_(file_bytes), loan_(loan) {
    for (uint32_t i = 0; i < kDataPieces; ++i) {
      pieces_[i].memory = loan_.memory().subspan(i * kDataPieceBytes, kDataPieceBytes);
      idle_.push_back(&pieces_[i]);
    }
  }

  // An error is the queue's.
  Status Read(std::span<Stretch> stretches) {
    for (Stretch& stretch : stretches) Split(stretch);
    Refill();
    Status status;
    while (status.ok() && loan_.outstanding() > 0) {
      reaped_.clear();
      status = loan_.Reap(1, reaped_);
      // The device gets on while these are copied, as far as there is idle memory.
      for (IoRequest* request : reaped_) Land(*static_cast<Piece*>(request->owner));
      if (status.ok()) Refill();
    }
    return status;
  }

 private:
  struct Want {
    Stretch* stretch = nullptr;
    uint64_t offset = 0;  // of the aligned piece
    uint64_t length_bytes = 0;
  };
  struct Piece {
    MutableBytes memory;
    IoRequest io;
    Want want;
  };

  void Split(Stretch& stretch) {
    const uint64_t asked = stretch.destination.size();
    const uint64_t left = file_bytes_ - std::min(file_bytes_, stretch.offset);
    stretch.bytes = std::min(asked, left);
    if (stretch.bytes == 0) return;
    const uint64_t alignment = file_.alignment_bytes();
    const uint64_t begin = stretch.offset / alignment * alignment;
    const uint64_t end = RoundUp(stretch.offset + stretch.bytes, alignment);
    for (uint64_t at = begin; at < end; at += kDataPieceBytes) {
      wanted_.push_back({&stretch, at, std::min(kDataPieceBytes, end - at)});
    }
  }

  void Refill() {
    submit_.clear();
    while (!wanted_.empty() && !idle_.empty()) {
      Piece& piece = *idle_.back();
      idle_.pop_back();
      piece.want = wanted_.front();
      wanted_.pop_front();
      piece.io = IoRequest{.op = IoOp::kRead,
                           .file = &file_,
                           .offset = piece.want.offset,
                           .buffer = piece.memory.first(piece.want.length_bytes),
                           .owner = &piece};
      submit_.push_back(&piece.io);
    }
    if (!submit_.empty()) loan_.Submit(submit_);
  }

  void Land(Piece& piece) {
    Stretch& stretch = *piece.want.stretch;
    const uint64_t begin = std::max(piece.want.offset, stretch.offset);
    const uint64_t end =
        std::min(piece.want.offset + piece.want.length_bytes, stretch.offset + stretch.bytes);
    const uint64_t read_end = piece.want.offset + piece.io.done_bytes;
    const bool met_the_end = piece.io.status.code() == StatusCode::kNotFound;
    if (!piece.io.status.ok() && !met_the_end) {
      if (stretch.status.ok()) stretch.status = piece.io.status;
    } else {
      const uint64_t copied_end = std::min(end, read_end);
      if (copied_end > begin) {
        std::memcpy(stretch.destination.data() + (begin - stretch.offset),
                    piece.memory.data() + (begin - piece.want.offset), copied_end - begin);
      }
      // A file that was cut since it was opened: RocksDB gets what there is, and says so.
      if (read_end < end) {
        const uint64_t there = std::max(read_end, stretch.offset) - stretch.offset;
        stretch.bytes = std::min(stretch.bytes, there);
      }
    }
    idle_.push_back(&piece);
  }

  const File& file_;
  const uint64_t file_bytes_;
  QueuePool::Loan& loan_;
  std::array<Piece, kDataPieces> pieces_;
  std::vector<Piece*> idle_;
  std::deque<Want> wanted_;
  std::vector<IoRequest*> submit_;
  std::vector<IoRequest*> reaped_;
};

class DataReader final : public rocksdb::FSRandomAccessFile {
 public:
  DataReader(QueuePool& pool, File file, uint64_t file_bytes)
      : pool_(pool), file_(std::move(file)), file_bytes_(file_bytes) {}

  rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions&,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext*) const override {
    Stretch stretch{.offset = offset, .destination = {reinterpret_cast<std::byte*>(scratch), n}};
    *result = rocksdb::Slice();
    if (const Status status = ReadAll({&stretch, 1}); !status.ok()) return ToRocksDb(status);
    if (stretch.status.ok()) *result = rocksdb::Slice(scratch, stretch.bytes);
    return ToRocksDb(stretch.status);
  }

  rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count,
                              const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    std::vector<Stretch> stretches(count);
    for (size_t i = 0; i < count; ++i) {
      stretches[i].offset = requests[i].offset;
      stretches[i].destination = {reinterpret_cast<std::byte*>(requests[i].scratch),
                                  requests[i].len};
    }
    const Status status = ReadAll(stretches);
    for (size_t i = 0; i < count; ++i) {
      const Status& one = status.ok() ? stretches[i].status : status;
      requests[i].status = ToRocksDb(one);
      requests[i].result =
          one.ok() ? rocksdb::Slice(requests[i].scratch, stretches[i].bytes) : rocksdb::Slice();
    }
    return ToRocksDb(status);
  }

  rocksdb::IOStatus InvalidateCache(size_t, size_t) override { return rocksdb::IOStatus::OK(); }

 private:
  Status ReadAll(std::span<Stretch> stretches) const {
    KVBED_ASSIGN_OR_RETURN(QueuePool::Loan loan, pool_.Borrow());
    return StretchReader(file_, file_bytes_, loan).Read(stretches);
  }

  QueuePool& pool_;
  const File file_;
  const uint64_t file_bytes_;
};

class DataScanner final : public rocksdb::FSSequentialFile {
 public:
  DataScanner(QueuePool& pool, File file, uint64_t file_bytes)
      : reader_(pool, std::move(file), file_bytes) {}

  rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result,
                         char* scratch, rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus status = reader_.Read(offset_, n, options, result, scratch, debug);
    if (status.ok()) offset_ += result->size();
    return status;
  }

  rocksdb::IOStatus Skip(uint64_t n) override {
    offset_ += n;
    return rocksdb::IOStatus::OK();
  }

 private:
  const DataReader reader_;
  uint64_t offset_ = 0;
};

struct OpenedFile {
  File file;
  uint64_t bytes = 0;
};

Result<OpenedFile> OpenForReading(Io& io, const std::string& path, const DataFileOptions& options) {
  OpenedFile opened;
  KVBED_ASSIGN_OR_RETURN(opened.file, io.Open(path, {.direct = options.direct}));
  KVBED_ASSIGN_OR_RETURN(opened.bytes, io.FileSize(opened.file));
  return opened;
}

}  // namespace

Result<std::unique_ptr<rocksdb::FSRandomAccessFile>> NewDataReader(Io& io, QueuePool& pool,
                                                                   const std::string& path,
                                                                   const DataFileOptions& options) {
  KVBED_ASSIGN_OR_RETURN(OpenedFile opened, OpenForReading(io, path, options));
  return std::unique_ptr<rocksdb::FSRandomAccessFile>(
      std::make_unique<DataReader>(pool, std::move(opened.file), opened.bytes));
}

Result<std::unique_ptr<rocksdb::FSSequentialFile>> NewDataScanner(Io& io, QueuePool& pool,
                                                                  const std::string& path,
                                                                  const DataFileOptions& options) {
  KVBED_ASSIGN_OR_RETURN(OpenedFile opened, OpenForReading(io, path, options));
  return std::unique_ptr<rocksdb::FSSequentialFile>(
      std::make_unique<DataScanner>(pool, std::move(opened.file), opened.bytes));
}

}  // namespace kvbed
