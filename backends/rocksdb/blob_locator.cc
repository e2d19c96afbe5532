#include "backends/rocksdb/blob_locator.h"

#include <fmt/format.h>

#include <array>

#include "offload/bytes.h"

namespace kvbed {
namespace {

// db/blob/blob_log_format.h of RocksDB: a header of 30 bytes, then for each blob a header of 32
// bytes (key bytes 8, value bytes 8, expiration 8, CRC of the header 4, CRC of the blob 4), the key
// and the value, and a footer of 32 bytes.
constexpr uint64_t kFileHeaderBytes = 30;
constexpr uint64_t kBlobHeaderBytes = 32;
constexpr uint64_t kFileFooterBytes = 32;
constexpr uint32_t kBlobFileMagic = 2395959;

Status ReadAt(IoQueue& queue, const File& file, uint64_t offset, MutableBytes out) {
  IoRequest read{.op = IoOp::kRead, .file = &file, .offset = offset, .buffer = out};
  return MoveAlone(queue, read);
}

}  // namespace

Result<RecordLocation> LocateBlob(Io& io, const std::vector<std::string>& files,
                                  const RecordId& id) {
  std::array<std::byte, kRecordIdBytes> wanted;
  id.Encode(wanted);
  Result<RecordLocation> found = Status::NotFound(fmt::format("no blob of {}", id.ToString()));
  KVBED_ASSIGN_OR_RETURN(auto queue, io.OpenQueue({.iodepth = 1, .synchronous = true}));
  for (const std::string& path : files) {
    KVBED_ASSIGN_OR_RETURN(const File file, io.Open(path, {}));
    KVBED_ASSIGN_OR_RETURN(const uint64_t file_bytes, io.FileSize(file));
    std::array<std::byte, kFileHeaderBytes> head;
    KVBED_RETURN_IF_ERROR(ReadAt(*queue, file, 0, head));
    if (LoadLe<uint32_t>(head, 0) != kBlobFileMagic) {
      return Status::Corruption(fmt::format("{} doesn't begin as a blob file does", path));
    }
    uint64_t at = kFileHeaderBytes;
    while (at + kBlobHeaderBytes + kFileFooterBytes <= file_bytes) {
      std::array<std::byte, kBlobHeaderBytes + kRecordIdBytes> blob;
      KVBED_RETURN_IF_ERROR(ReadAt(*queue, file, at, blob));
      const auto key_bytes = LoadLe<uint64_t>(blob, 0);
      const auto value_bytes = LoadLe<uint64_t>(blob, 8);
      const uint64_t left = file_bytes - at - kBlobHeaderBytes;
      if (key_bytes != kRecordIdBytes || value_bytes > left - key_bytes) {
        return Status::Corruption(fmt::format("{} has no blob at {}", path, at));
      }
      const uint64_t value_at = at + kBlobHeaderBytes + key_bytes;
      if (std::equal(wanted.begin(), wanted.end(), blob.begin() + kBlobHeaderBytes)) {
        found = RecordLocation{.path = path, .offset = value_at, .size_bytes = value_bytes};
      }
      at = value_at + value_bytes;
    }
  }
  return found;
}

}  // namespace kvbed
