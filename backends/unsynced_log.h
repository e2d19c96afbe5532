// What a power cut may take back: the bytes under the writes since each file's last sync, and the
// names that changed since each directory's last sync. It doesn't know fault plans; not
// thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/io.h"
#include "offload/status.h"

namespace kvbed {

// A held descriptor of its own, for reading and writing beside the store's (buffered, so that it
// needs no alignment).
class HeldFile {
 public:
  HeldFile() = default;
  explicit HeldFile(int fd) : fd_(fd) {}
  HeldFile(HeldFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  HeldFile& operator=(HeldFile&& other) noexcept;
  ~HeldFile();
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// The bytes of an open file at `offset`, whatever its mode; zeroes behind its end.
Result<std::vector<std::byte>> BytesBeside(const File& file, uint64_t offset,
                                           uint64_t length_bytes);

class UnsyncedLog {
 public:
  // Call before the change reaches the file. A ticket belongs to one change or one sync.
  Result<uint64_t> WriteBegins(const File& file, uint64_t offset, uint64_t length_bytes);
  Result<uint64_t> ResizeBegins(const File& file, uint64_t size_bytes);
  // Not `happened`: the file is as it was.
  void ChangeEnds(uint64_t ticket, bool happened);

  // A sync covers the changes that had ended when it began. After a failed one they count as lost
  // whatever a later sync says: Linux marks the pages clean.
  uint64_t SyncBegins(const File& file);
  void SyncEnds(uint64_t ticket, bool ok);

  // Names. Call Holding before a name goes away, so that its file can be brought back.
  static Result<HeldFile> Holding(const std::string& path);  // closed when there is no such file
  void Created(const std::string& path);
  void Renamed(const std::string& from, const std::string& to, HeldFile replaced);
  void Unlinked(const std::string& path, HeldFile removed);
  void DirectorySynced(const std::string& path, bool ok);

  size_t unsynced_changes() const;  // of bytes and of names

  // Takes back everything that no sync covers (`choose` empty), or what chance says:
  // choose(bound) is below bound. No change may be between its begin and its end. Names stay in the
  // order of a journal: a prefix of them survives. Of a write all, nothing or its first sectors
  // survive. Then forgets everything.
  Status RollBack(const std::function<uint64_t(uint64_t)>& choose);

 private:
  using FileKey = std::pair<dev_t, ino_t>;

  struct Change {
    uint64_t ticket = 0;
    uint64_t offset = 0;
    std::vector<std::byte> old_bytes;  // of [offset, offset + size)
    uint64_t size_before = 0;
    uint64_t size_after = 0;
    bool resize = false;
    bool ended = false;
    bool durable = false;
    bool lost = false;        // by a failed sync
    uint64_t covered_by = 0;  // a sync's ticket
    uint64_t end() const { return offset + old_bytes.size(); }
  };
  struct FileChanges {
    HeldFile file;
    std::deque<Change> changes;  // oldest first
  };
  enum class NameOp { kCreate, kRename, kUnlink };
  struct NameChange {
    NameOp op;
    std::string path;  // of a rename: the old name
    std::string to;
    HeldFile removed;
    bool durable = false;
    bool lost = false;
  };

  Result<FileChanges*> Track(const File& file);
  static Status RollBackFile(FileChanges& file, const std::function<uint64_t(uint64_t)>& choose);
  static Status RollBackName(NameChange& change);

  std::map<FileKey, FileChanges> files_;
  std::vector<NameChange> names_;  // oldest first
  std::map<uint64_t, FileKey> syncs_;
  std::map<uint64_t, FileKey> open_changes_;
  uint64_t next_ticket_ = 1;
};

}  // namespace kvbed
