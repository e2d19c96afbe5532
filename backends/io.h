// The seam to the operating system's files: Io opens and names them, an IoQueue moves bytes.
// Everything that touches a disk goes through it, so that device faults and power cuts are injected
// here once for every store. It doesn't know records, slots or manifests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

class FaultDevice;  // fault_device.h

enum class IoEngine { kAuto, kIoUring, kPsync };

std::string_view IoEngineName(IoEngine engine);  // "auto", "io_uring", "psync"
Result<IoEngine> ParseIoEngine(std::string_view name);

// One open file. Move-only; closing in the destructor ignores errors, so a file whose data matter
// is synced before.
class File {
 public:
  File() = default;
  // `alignment_bytes` is 1 for a file that isn't direct.
  File(int fd, std::string path, bool direct, uint32_t alignment_bytes)
      : fd_(fd), direct_(direct), alignment_bytes_(alignment_bytes), path_(std::move(path)) {}
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  // As read back with F_GETFL after opening, not as asked for.
  bool direct() const { return direct_; }
  // What the address, the offset and the length of a request must be multiples of: what statx says
  // for a direct file, 4096 where it says nothing, and 1 for a buffered file.
  uint32_t alignment_bytes() const { return alignment_bytes_; }
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  bool direct_ = false;
  uint32_t alignment_bytes_ = 1;
  std::string path_;
};

struct OpenOptions {
  bool write = false;      // and read
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
  MutableBytes buffer{};

  // Set by the queue when the request completes. Ok means every byte was transferred. A read that
  // meets the end of the file is "not found" with both counts in its message and `done_bytes`
  // holding what was read; a write of which the device takes nothing is an I/O error; an address,
  // offset or length that a direct file refuses is an invalid argument that says which, before
  // anything was given to the device.
  Status status{};
  uint64_t done_bytes = 0;
  uint64_t submitted_ns = 0;  // CLOCK_MONOTONIC, when it was given to the device
  uint64_t completed_ns = 0;
  uint32_t attempts = 0;  // how often the device was asked: more than 1 after a partial transfer,
                          // EAGAIN, EINTR or a split

  void* owner = nullptr;  // the caller's; the queue doesn't touch it
};

inline constexpr uint64_t kTransferBytesMax = uint64_t{1} << 30;

struct IoQueueOptions {
  uint32_t iodepth = 16;
  // Registered with the kernel where that is possible; requests outside it work too. Must outlive
  // the queue.
  MutableBytes memory{};
  // A longer request becomes several transfers, one after another. Linux moves at most 0x7ffff000
  // bytes in one. Above 0 and a multiple of 4096.
  uint64_t transfer_bytes_max = kTransferBytesMax;
  // For a few small transfers: pread and pwrite whatever the engine, so that no ring is set up.
  bool synchronous = false;
  // Threads use it in turn, handed on by whoever owns it; costs the ring's single issuer. Files
  // that come and go must not be attached to it.
  bool lendable = false;
  // Stands between the queue and the kernel when set; faulty_io.h's Io sets it.
  FaultDevice* faults = nullptr;
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
  std::string registered_files_reason;    // likewise
  std::vector<std::string> ring_flags;    // e.g. "SINGLE_ISSUER", "DEFER_TASKRUN"
  uint64_t calls = 0;  // that were asked of the device: entries that io_uring took, or system calls

  // Becomes a newer queue's, and keeps the higher iodepth_achieved and all calls.
  void TakeOver(const IoQueueInfo& newer);
};

// Moves batches of bytes. Belongs to the thread that opened it (asserted) unless it is lendable. It
// is the only code that handles partial transfers, EINTR, EAGAIN, a full queue and transfers above
// 0x7ffff000 bytes.
class IoQueue {
 public:
  // Waits for everything in flight before memory and files may go. What the device was not given
  // yet is dropped, with an I/O error as its status. May run on another thread only when nothing
  // is outstanding.
  virtual ~IoQueue() = default;

  // Makes I/O on `file` cheaper where the kernel can (registered files); the file must outlive the
  // queue and stay in place. Optional: unattached files work, and where the kernel can't, info()
  // says why. A file that isn't open is an invalid argument.
  virtual Status AttachFile(const File& file) = 0;

  // Takes all requests; those beyond iodepth wait inside. Each one completes exactly once, and is
  // handed back by Reap, also when it failed at once. A kDatasync is not ordered against requests
  // in flight: reap the writes first.
  virtual void Submit(std::span<IoRequest* const> requests) = 0;

  // Waits until at least `min_complete` requests are done (fewer when fewer are outstanding),
  // and appends all that are done to `completed`. Refills the device before it returns. Never
  // spins. An error means that the queue itself is broken: everything outstanding is handed back
  // with that error, and so is whatever is submitted later.
  virtual Status Reap(size_t min_complete, std::vector<IoRequest*>& completed) = 0;

  virtual size_t outstanding() const = 0;  // submitted and not yet reaped
  virtual IoQueueInfo info() const = 0;
};

// Submits one request to a queue that has nothing else outstanding, and waits for it.
Status MoveAlone(IoQueue& queue, IoRequest& request);

enum class RenameMode { kReplace, kNoReplace };

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
  bool is_special = false;  // neither file nor folder: a link, a pipe, a socket, a device
  uint64_t size_bytes = 0;
  bool operator==(const DirectoryEntry&) const = default;
};

// Any number of threads may use one Io.
class Io {
 public:
  virtual ~Io() = default;

  virtual Result<File> Open(const std::string& path, const OpenOptions& options) = 0;
  virtual Result<uint64_t> FileSize(const File& file) = 0;
  // Reserves blocks for [0, size_bytes) and makes the file at least that long; new bytes read as
  // zeroes. Out of space leaves the length as it was. Where a filesystem can't reserve, the file
  // is made that long and a full disk shows when it is written.
  virtual Status Preallocate(const File& file, uint64_t size_bytes) = 0;
  virtual Status Truncate(const File& file, uint64_t size_bytes) = 0;
  virtual Status SyncFile(const File& file) = 0;  // fsync
  // An existing target under kNoReplace is an invalid argument that names it.
  virtual Status Rename(const std::string& from, const std::string& to, RenameMode mode) = 0;
  virtual Status Unlink(const std::string& path) = 0;
  // Parents too, mode 0700. New ones are durable on return.
  virtual Status MakeDirectories(const std::string& path) = 0;
  virtual Status RemoveDirectory(const std::string& path) = 0;  // an empty one
  virtual Status SyncDirectory(const std::string& path) = 0;
  virtual Result<std::vector<DirectoryEntry>> List(const std::string& path) = 0;  // by name

  virtual Result<std::unique_ptr<IoQueue>> OpenQueue(const IoQueueOptions& options) = 0;
};

// A name for a new file beside `path` that no other process or call picks: "PATH.PID-RANDOM.tmp".
std::string TemporaryPath(const std::string& path);
bool IsTemporaryPath(std::string_view path);  // for whoever sweeps up after a crash

// The Io of this machine. kAuto takes io_uring, else psync, and keeps the errno that refused it for
// IoQueueInfo::engine_reason; kIoUring is an error where it can't be had.
Result<std::unique_ptr<Io>> OpenIo(IoEngine engine);

// Whole small files (manifests, UUIDs) over the seam, buffered I/O.
// Not found when absent; corruption when longer than `size_max_bytes`.
Result<std::string> ReadFile(Io& io, const std::string& path, uint64_t size_max_bytes);
// Writes a new unique temporary file beside `path`, fsyncs it, renames it to `path` and fsyncs the
// directory. On failure the temporary is removed and an existing `path` is as it was, except when
// only the directory's fsync failed: then `path` is the new file, a power cut may bring back
// the old one, and the message says so.
Status PublishFile(Io& io, const std::string& path, Bytes contents, RenameMode mode);

}  // namespace kvbed
