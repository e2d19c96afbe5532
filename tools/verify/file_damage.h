// Damage done by hand to a store's files, and undone, so that the same files can be damaged again.
// It knows files, not formats.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "offload/block_store.h"
#include "offload/status.h"

namespace kvbed {

// All regular files below a folder, by path.
std::vector<std::string> FilesBelow(const std::string& folder);

Result<std::string> ReadBytes(const std::string& path, uint64_t offset, uint64_t size_bytes);
uint64_t SizeOfFile(const std::string& path);

// Everything that was done, undone in reverse order at the end. Nothing is synced: whoever reads
// the files next does so through the same kernel.
class FileDamage {
 public:
  // Files that go away are kept in `spare_folder` meanwhile.
  explicit FileDamage(std::string spare_folder) : spare_folder_(std::move(spare_folder)) {}
  FileDamage(const FileDamage&) = delete;
  FileDamage& operator=(const FileDamage&) = delete;
  ~FileDamage();

  Status Overwrite(const std::string& path, uint64_t offset, const std::string& bytes);
  Status FlipBit(const std::string& path, uint64_t offset, uint32_t bit);
  // Cuts it, or makes it longer by `more` bytes.
  Status Truncate(const std::string& path, uint64_t size_bytes);
  Status Append(const std::string& path, const std::string& bytes);
  Status Remove(const std::string& path);
  Status ReplaceByFile(const std::string& path, const std::string& bytes);
  Status ReplaceByFolder(const std::string& path);

  // Not ok: the files aren't as they were.
  Status Undo();

 private:
  struct Step {
    enum class Kind { kBytes, kSize, kMoved } kind = Kind::kBytes;
    std::string path;
    uint64_t offset = 0;
    std::string bytes;  // kBytes: the old ones; kMoved: the name that the file has meanwhile
  };
  Status MoveAway(const std::string& path);
  Status UndoStep(const Step& step);

  const std::string spare_folder_;
  std::vector<Step> steps_;
};

// While it lives, this thread may not open one of a folder's files: its mode is 0, and a thread of
// root takes another user's rights for files (setfsuid), with everything else opened to them.
class LostPermission {
 public:
  // Not supported where a thread of root can't do that.
  static Result<LostPermission> Take(const std::string& folder, const std::string& path);
  LostPermission(LostPermission&& other) noexcept;
  LostPermission& operator=(LostPermission&&) = delete;
  ~LostPermission();

 private:
  LostPermission(std::string path, bool as_other_user)
      : path_(std::move(path)), as_other_user_(as_other_user) {}

  std::string path_;  // empty: moved from
  bool as_other_user_;
};

}  // namespace kvbed
