// The seam to the operating system's files: Io opens and names them, an IoQueue moves bytes.
// Everything that touches a disk goes through it, so that device faults and power cuts are injected
// here once for every store. It doesn't know records, slots or manifests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

enum class IoEngine { kAuto, kIoUring, kPsync };

std::string_view IoEngineName(IoEngine engine);  // "auto", "io_uring", "psync"
Result<IoEngine> ParseIoEngine(std::string_view name);

// One open file. Move-only; closing in the destructor ignores errors, so a file whose data matter
// is synced before.
class File {
 public:
  File() = default;
  File(int fd, std::string path, bool direct) : fd_(fd), direct_(direct), path_(std::move(path)) {}
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  // As read back with F_GETFL after opening, not as asked for.
  bool direct() const { return direct_; }
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  bool direct_ = false;
  std::string path_;
};

struct OpenOptions {
  bool write = false;
  bool create = false;     // mode 0600
  bool exclusive = false;  // with create: an existing file is an error
  bool direct = false;     // O_DIRECT in the open call; refused -> not supported, never silent
};

enum class IoOp : uint8_t { kRead, kWrite, kDatasync };

// A request is the caller's: it must stay in place, and its buffer and file with it, until the
// queue has handed it back. `buffer` is only read by a write.
struct IoRequest {
  IoOp op = IoOp::kRead;
  const File* file = nullptr;
  uint64_t offset = 0;
  MutableBytes buffer;

  // Set by the queue when the request completes. Ok means every byte was transferred. A read that
  // meets the end of the file is "not found" with both counts in its message and `done_bytes`
  // holding what was read; a write that the device cuts short without an error is an I/O error.
  Status status;
  uint64_t done_bytes = 0;
  uint64_t submitted_ns = 0;  // CLOCK_MONOTONIC, when it entered the kernel (or the engine)
  uint64_t completed_ns = 0;

  void* owner = nullptr;  // the caller's; the queue doesn't touch it
  uint32_t attempts = 0;  // the queue's: bounded retries of EAGAIN and EINTR
};

struct IoQueueOptions {
  uint32_t iodepth = 16;
  // Registered with the kernel where that is possible; requests outside it work too.
  MutableBytes memory;
};

// What is in effect, not what was asked for.
struct IoQueueInfo {
  IoEngine engine = IoEngine::kPsync;
  std::string engine_reason;  // why not io_uring, with the errno, when auto fell back
  uint32_t iodepth_requested = 0;
  uint32_t iodepth_achieved = 0;  // most requests that were in flight at once
  bool registered_buffers = false;
  bool registered_files = false;
  std::string registered_buffers_reason;  // e.g. the memlock limit, when not
  std::vector<std::string> ring_flags;    // e.g. "SINGLE_ISSUER", "DEFER_TASKRUN"
};

// Moves batches of bytes. Belongs to the thread that opened it (asserted). It is the only code that
// handles partial transfers, EINTR, EAGAIN, a full queue and transfers above 0x7ffff000 bytes.
class IoQueue {
 public:
  // Waits for everything in flight before memory and files may go.
  virtual ~IoQueue() = default;

  // Makes I/O on `file` cheaper where the kernel can (registered files); the file must outlive the
  // queue. Optional: unattached files work.
  virtual Status AttachFile(const File& file) = 0;

  // Takes all requests; those beyond iodepth wait inside. Each one completes exactly once, and is
  // handed back by Reap, also when it failed at once. A kDatasync is not ordered against requests
  // in flight: reap the writes first.
  virtual void Submit(std::span<IoRequest* const> requests) = 0;

  // Waits until at least `min_complete` requests are done (fewer when fewer are outstanding),
  // and appends all that are done to `completed`. Refills the device before it returns.
  virtual Status Reap(size_t min_complete, std::vector<IoRequest*>& completed) = 0;

  virtual size_t outstanding() const = 0;  // submitted and not yet reaped
  virtual IoQueueInfo info() const = 0;
};

enum class RenameMode { kReplace, kNoReplace };

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
  uint64_t size_bytes = 0;
  bool operator==(const DirectoryEntry&) const = default;
};

// Any number of threads may use one Io.
class Io {
 public:
  virtual ~Io() = default;

  virtual Result<File> Open(const std::string& path, const OpenOptions& options) = 0;
  virtual Result<uint64_t> FileSize(const File& file) = 0;
  // Reserves blocks for [0, size_bytes) and makes the file that long; the bytes read as zeroes.
  virtual Status Preallocate(const File& file, uint64_t size_bytes) = 0;
  virtual Status Truncate(const File& file, uint64_t size_bytes) = 0;
  virtual Status SyncFile(const File& file) = 0;  // fsync
  // An existing target under kNoReplace is an invalid argument that names it.
  virtual Status Rename(const std::string& from, const std::string& to, RenameMode mode) = 0;
  virtual Status Unlink(const std::string& path) = 0;
  virtual Status MakeDirectories(const std::string& path) = 0;  // parents too, mode 0700
  virtual Status SyncDirectory(const std::string& path) = 0;
  virtual Result<std::vector<DirectoryEntry>> List(const std::string& path) = 0;  // by name

  virtual Result<std::unique_ptr<IoQueue>> OpenQueue(const IoQueueOptions& options) = 0;
};

// The Io of this machine. kAuto takes io_uring, else psync, and keeps the errno that refused it for
// IoQueueInfo::engine_reason; kIoUring is an error where it can't be had.
Result<std::unique_ptr<Io>> OpenIo(IoEngine engine);

// Whole small files (manifests, UUIDs) over the seam, buffered I/O.
// Not found when absent; corruption when longer than `size_max_bytes`.
Result<std::string> ReadFile(Io& io, const std::string& path, uint64_t size_max_bytes);
// Writes a new unique temporary file beside `path`, fsyncs it, renames it to `path` and fsyncs the
// directory. On failure the temporary is removed and an existing `path` is as it was.
Status PublishFile(Io& io, const std::string& path, Bytes contents, RenameMode mode);

}  // namespace kvbed
