// The slab files of a store: one for each record size, made of equal slots, grown in extents within
// the store's capacity. It doesn't know which record is in a slot. Not thread-safe; its owner
// locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "backends/io.h"
#include "backends/slot_map.h"
#include "offload/status.h"

namespace kvbed {

// Stays in place until the store is closed.
struct SlabFile {
  std::string path;
  uint64_t record_bytes = 0;
  File file;           // not open when there is none, or it can't be opened
  Status open_status;  // why it isn't open
  uint64_t size_bytes = 0;
  SlotMap slots;
  bool unsynced = false;  // written since the last flush
};

// "slab-372736.dat"
std::string SlabFileName(uint64_t record_bytes);

// The record size in a slab file's name; nullopt for any other name.
std::optional<uint64_t> SlabRecordBytes(std::string_view name);

// How much a slab file of this size grows at a time: by its own size from 16 to 256 MiB, later by
// an eighth; whole slots, at least one.
uint64_t ExtentBytes(uint64_t size_bytes, uint64_t record_bytes);

class SlabFiles {
 public:
  struct Options {
    std::string directory;
    bool write = false;
    bool direct = true;
    uint64_t capacity_bytes = 0;  // of all slab files together; 0: free space less a reserve
  };

  // `io` must outlive it.
  SlabFiles(Io& io, Options options) : io_(&io), options_(std::move(options)) {}

  // Finds and opens the files that exist. Slots that manifests name must be marked before their
  // files are opened, so this comes first, and OpenAll after it.
  SlabFile& Expect(uint64_t record_bytes);
  Status OpenAll();

  // Null when nothing is known of this size.
  SlabFile* Find(uint64_t record_bytes);
  // Makes the file when there is none; its name is durable on return.
  Result<SlabFile*> ForWriting(uint64_t record_bytes);
  // Whether a new file's name could not be made durable; then nothing more may count as durable.
  bool name_sync_failed() const { return name_sync_failed_; }
  // Grows the file when it has no free slot. Out of space says how much there is.
  Result<uint64_t> TakeSlot(SlabFile& slab);

  uint64_t SizeBytes() const;
  // What TakeSlot can still hand out, in bytes.
  uint64_t FreeBytes() const;
  // The capacity in effect now.
  uint64_t CapacityBytes() const;
  // While a manifest can't be read: only slots of new extents are handed out.
  void WithholdUnnamedSlots();
  void StopWithholding();
  std::map<uint64_t, SlabFile>& all() { return slabs_; }
  const std::map<uint64_t, SlabFile>& all() const { return slabs_; }

 private:
  uint64_t GrowableBytes() const;
  Status Grow(SlabFile& slab);
  Status NoSpace(const SlabFile& slab, const Status& cause) const;

  Io* io_;
  Options options_;
  bool name_sync_failed_ = false;
  std::map<uint64_t, SlabFile> slabs_;  // by record size
};

}  // namespace kvbed
