// Whether direct I/O works in a directory, tried and not assumed, and what filesystem it is on.
// It doesn't know stores.
#pragma once

#include <cstdint>
#include <string>

#include "backends/io.h"
#include "offload/status.h"

namespace kvbed {

struct DirectProbe {
  uint32_t alignment_bytes = 0;  // of addresses, offsets and lengths
  std::string filesystem{};      // as FilesystemType says
};

// Writes one aligned block to a temporary file in `directory`, reads it back with O_DIRECT and
// compares; the file is removed again. Finds filesystems that accept the flag and refuse the I/O:
// the error names the path and the call. tmpfs passes, since it accepts the flag and ignores it:
// look at `filesystem`.
Result<DirectProbe> ProbeDirect(Io& io, const std::string& directory);

// "ext4", "xfs", "btrfs", "tmpfs", "nfs", "overlayfs", ... of the filesystem that holds `path`;
// "0x..." (statfs's f_type) for one without a name here. "ext4" stands for ext2 and ext3 too, which
// share its number.
Result<std::string> FilesystemType(const std::string& path);

}  // namespace kvbed
