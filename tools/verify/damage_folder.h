// The folder in which a store under test keeps its files, seen from outside: what the store wrote,
// damage done to that and to nothing else, and the way back. It knows files and no format.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

// Before any store is opened: invalid argument for what isn't a folder, for `/`, a home or what a
// home lies in, and for one that has files already. One that isn't there yet is fine.
Status CheckDamageFolder(const std::string& path);

enum class DamageKind : uint8_t { kFlip, kZero, kTruncate, kSwap, kRemove };
inline constexpr DamageKind kDamageKinds[] = {DamageKind::kFlip, DamageKind::kZero,
                                              DamageKind::kTruncate, DamageKind::kSwap,
                                              DamageKind::kRemove};
std::string_view DamageKindName(DamageKind kind);  // "flip", "zero", ...

// What tells whether a file was written since.
struct FileStamp {
  ino_t inode = 0;
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
// Regular files below the folder, by their path in it. Links of either kind, and other filesystems,
// are left out: what they lead to may lie elsewhere.
using FolderInventory = std::map<std::string, FileStamp>;
Result<FolderInventory> ListFolder(const std::string& folder);

class DamageFolder {
 public:
  // What the store wrote since `before` is kept in `backup`, which is made.
  static Result<DamageFolder> Keep(const std::string& folder, const FolderInventory& before,
                                   const std::string& backup);

  // In the files that the store wrote, by their path in the folder.
  const std::vector<std::string>& files() const { return files_; }

  // A place where the store has these bytes as they are.
  struct Place {
    size_t file = 0;
    uint64_t offset = 0;
  };
  // Where one of `patterns` stands. None of a store that packs what it keeps.
  Result<std::vector<Place>> Find(const std::vector<Bytes>& patterns) const;

  // Damages a file as chance has it: at one of `places` as often as not, else anywhere in its data.
  // Returns what was done, for people; an I/O error when nothing that changes a byte could be done.
  Result<std::string> Damage(DamageKind kind, const std::vector<Place>& places,
                             std::mt19937_64& random) const;

  // Puts all files back as they were kept and removes those that came since.
  Status PutBack() const;

 private:
  DamageFolder(std::string folder, std::string backup)
      : folder_(std::move(folder)), backup_(std::move(backup)) {}

  Result<std::optional<std::string>> TryDamage(DamageKind kind, const std::vector<Place>& places,
                                               std::mt19937_64& random) const;
  Result<Place> Choose(const std::vector<Place>& places, std::mt19937_64& random) const;

  std::string folder_;
  std::string backup_;
  std::vector<std::string> files_;
  FolderInventory kept_;  // of all files in the folder
};

}  // namespace kvbed
