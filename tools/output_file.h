// The files that a command writes its results to. Each is looked at before the work, so that no
// result is lost to a misspelt folder, and written whole after it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

enum class OutputKind {
  kAny,      // also a device or a pipe, as in --json /dev/stdout
  kRegular,  // to be read again
};

// What no output may take the place of: files, and folders with all that is in them. Empty texts
// count for nothing.
using KeptPlaces = std::vector<std::string>;

// Before the work: can a file be put at `path`? `option` is the one that named it. A usage error
// for an empty name, "-", a folder, a place that is or lies in one of `kept`, and one in any store;
// not found for a folder that isn't there; an I/O error where nothing may be written.
Status CheckOutputFile(std::string_view option, const std::string& path, OutputKind kind,
                       const KeptPlaces& kept);

// The old file or the new one, whole, also after a power cut. A symbolic link stays one: what it
// points to is replaced. Written in place: devices and pipes, and a file in a folder that nothing
// can be made in. Mode 0644.
Status ReplaceFile(const std::string& path, std::string_view text);

// The same for a file that is written in pieces, and is never whole in memory. The place must be a
// regular file or free (OutputKind::kRegular). Without Commit nothing changes, but where the file
// had to be written in place.
class ReplacedFile {
 public:
  // Takes the room for `size_bytes` at once, so that a full disk is told before the work.
  static Result<ReplacedFile> Create(const std::string& path, uint64_t size_bytes);
  ReplacedFile(ReplacedFile&& other) noexcept;
  ReplacedFile& operator=(ReplacedFile&&) = delete;
  ~ReplacedFile();

  Status WriteAt(uint64_t offset, Bytes bytes);
  Status Commit();

 private:
  ReplacedFile(int fd, std::string place, std::string temporary);

  int fd_;
  std::string place_;
  std::string temporary_;  // empty when written in place
};

// Adds to the file, which is made when missing.
Status AppendToFile(const std::string& path, std::string_view text);

}  // namespace kvbed
