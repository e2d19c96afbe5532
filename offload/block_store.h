// The store interface: keeps opaque records under their ids, unchanged, and commits manifests.
// Public verbs check arguments, count and time; stores implement the protected Do* verbs. A store
// knows no format and no checksum: it takes the record's digest as a name of its bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "offload/bytes.h"
#include "offload/digest.h"
#include "offload/manifest.h"
#include "offload/record_id.h"
#include "offload/status.h"

namespace kvbed {

// One record to put or to get. The caller's: it and its memory stay in place, and for a put
// unchanged, until the channel has handed the request back.
struct StoreRequest {
  enum class Op : uint8_t { kPut, kGet };

  Op op = Op::kGet;
  RecordId id;
  Digest128 digest;     // put: names the bytes; get: ignored by stores that don't need it
  MutableBytes record;  // record_bytes long, aligned to 4 KiB
  uint64_t place = 0;   // set by a put; a get gives the manifest's

  // Ok: the whole record was transferred. Get: not found when the store has no such id (the message
  // says "removed meanwhile" when it had), corruption when the store's file ends before the record
  // does (`short_bytes` says how many there were). Put: an existing id with another digest is an
  // invalid argument, with the same digest it is ok and nothing is written.
  Status status;
  std::optional<uint64_t> short_bytes;
  bool deduplicated = false;
  uint64_t submitted_ns = 0;  // CLOCK_MONOTONIC
  uint64_t completed_ns = 0;

  void* owner = nullptr;     // the caller's
  void* internal = nullptr;  // the store's while the request is outstanding
};

struct ChannelOptions {
  uint32_t iodepth = 16;
  MutableBytes memory;  // registered with the I/O engine where it can be
};

// What is in effect. Names as in result files.
struct StoreInfo {
  std::string spec;
  std::string kind;    // "slab", "memory", ...
  std::string design;  // what it is, for a reader of reports: "a file for each block, direct I/O"
  Digest128 uuid;
  std::string ioengine;  // "io_uring", "psync", "none"
  std::string ioengine_reason;
  bool direct = false;
  std::string direct_reason;  // why not, when not
  std::string fs_type;        // "ext4", "tmpfs", ...; empty for none
  uint64_t alignment_bytes = 0;
  uint64_t record_bytes = 0;  // of the records in it; 0 for none or several sizes
  bool asynchronous = false;  // transfers go on while the caller does something else
  bool overwrites = false;    // a put may go to a place that was written before
  uint32_t iodepth_requested = 0;
  uint32_t iodepth_achieved = 0;
  bool registered_buffers = false;
  std::string registered_buffers_reason;
  bool registered_files = false;
  std::string registered_files_reason;
  std::vector<std::string> ring_flags;
  // Bytes that it gave to its files for each byte of the records put, since it was opened, where it
  // writes more than the records by design; its own count.
  std::optional<double> write_amplification;
  // What else a store says of itself, by name: options, versions, statistics.
  std::vector<std::pair<std::string, std::string>> details;
  // What makes its figures or its safety other than one would expect.
  std::vector<std::string> warnings;
  std::string
      durability;  // what D1 and D2 are here, e.g. "fdatasync; fsync, rename, fsync of the folder"
  uint64_t records = 0;          // committed
  uint64_t logical_bytes = 0;    // of committed records
  uint64_t allocated_bytes = 0;  // that the file system has given to the store
  uint64_t capacity_bytes = 0;   // 0: not limited
  uint64_t free_bytes = 0;       // that further records can take
};

struct StoreCounters {
  uint64_t puts = 0, puts_deduplicated = 0, puts_failed = 0, gets = 0, gets_failed = 0;
  uint64_t bytes_written = 0, bytes_read = 0;  // records' bytes of successful requests
  uint64_t flushes = 0, commits = 0;
};

struct ManifestSummary {
  std::string name;
  uint64_t created_ns = 0;
  uint64_t cached_tokens = 0;
  uint64_t blocks = 0;
  uint64_t stored_bytes = 0;
  std::string model_name;
  Status status;  // a manifest that can't be read is listed with its error
};

struct StoredRecord {
  RecordId id;
  uint64_t place = 0;
  Digest128 digest;
  uint64_t record_bytes = 0;
  uint32_t manifests = 0;  // how many name it
};

// Where a record's bytes lie in a file, for damage done on purpose and for people.
struct RecordLocation {
  std::string path;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

enum class CommitMode { kNew, kReplace };

class BlockStore;

// A caller's own queue into a store. Belongs to one thread. The store must outlive it.
class StoreChannel {
 public:
  StoreChannel(StoreChannel&& other) noexcept;
  StoreChannel& operator=(StoreChannel&&) = delete;
  // Waits for what is outstanding.
  ~StoreChannel();

  // Takes all requests; each completes exactly once, whole or with an error, now or later, and is
  // handed back by Reap. Those beyond iodepth wait inside.
  void Submit(std::span<StoreRequest* const> requests);
  // Waits until at least `min_complete` requests are done (fewer when fewer are outstanding), and
  // appends all that are done. The device's queue is refilled before it returns. An error means
  // that the channel itself is broken: everything outstanding is handed back with that error, so
  // that nothing refers to the caller's memory any longer.
  Status Reap(size_t min_complete, std::vector<StoreRequest*>& completed);
  size_t outstanding() const { return outstanding_; }
  uint32_t iodepth() const { return iodepth_; }

 private:
  friend class BlockStore;
  StoreChannel(BlockStore* store, uint32_t handle, uint32_t iodepth);

  BlockStore* store_;
  uint32_t handle_;
  uint32_t iodepth_;
  size_t outstanding_ = 0;
};

class BlockStore {
 public:
  virtual ~BlockStore() = default;
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;

  // Any number of threads may have a channel, each its own.
  Result<StoreChannel> OpenChannel(const ChannelOptions& options);

  // D1: every put that completed before is durable. After a failure the data since the last success
  // count as lost: this and every later Flush and Commit fails, and the store must be reopened.
  Status Flush();

  // D2: publishes `manifest` (its store_uuid and the blocks' places are set). Every record in it
  // must have been put and flushed, or be committed already. An existing name is an invalid
  // argument unless it is replaced. What the replaced manifest alone named becomes free afterwards.
  Status Commit(Manifest& manifest, CommitMode mode);

  // Frees records that were put and are in no manifest; those in one are left as they are.
  void Discard(std::span<const RecordId> ids);

  Result<Manifest> ReadManifest(const std::string& name);
  Result<std::vector<ManifestSummary>> ListManifests();
  // Not found when there is none; the error of a manifest that another version may read. The
  // records that it alone named become free once that is durable, and once no get of them is
  // outstanding.
  Status RemoveManifest(const std::string& name);
  // The committed records, by id.
  Result<std::vector<StoredRecord>> ListRecords();
  // Not supported where records are not in files.
  Result<RecordLocation> Locate(const RecordId& id, uint64_t place);

  StoreInfo info() const { return DoInfo(); }
  StoreCounters counters() const;

 protected:
  BlockStore() = default;

  // For a store that has been opened anew beneath its handle.
  void ForgetFailedFlush() { flush_failed_ = false; }

  // A channel handle is the store's own number; Do* verbs on one handle come from one thread.
  virtual Result<uint32_t> DoOpenChannel(const ChannelOptions& options) = 0;
  virtual void DoCloseChannel(uint32_t channel) = 0;  // nothing is outstanding
  virtual void DoSubmit(uint32_t channel, std::span<StoreRequest* const> requests) = 0;
  virtual Status DoReap(uint32_t channel, size_t min_complete,
                        std::vector<StoreRequest*>& completed) = 0;
  virtual Status DoFlush() = 0;
  virtual Status DoCommit(Manifest& manifest, CommitMode mode) = 0;
  virtual void DoDiscard(std::span<const RecordId> ids) = 0;
  virtual Result<Manifest> DoReadManifest(const std::string& name) = 0;
  virtual Result<std::vector<ManifestSummary>> DoListManifests() = 0;
  virtual Status DoRemoveManifest(const std::string& name) = 0;
  virtual Result<std::vector<StoredRecord>> DoListRecords() = 0;
  virtual Result<RecordLocation> DoLocate(const RecordId& id, uint64_t place) = 0;
  virtual StoreInfo DoInfo() const = 0;

 private:
  friend class StoreChannel;

  struct AtomicCounters {
    std::atomic<uint64_t> puts{0}, puts_deduplicated{0}, puts_failed{0}, gets{0}, gets_failed{0};
    std::atomic<uint64_t> bytes_written{0}, bytes_read{0}, flushes{0}, commits{0};
  };
  AtomicCounters counters_;
  std::atomic<bool> flush_failed_{false};
};

}  // namespace kvbed
