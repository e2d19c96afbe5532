// Whether a store's folder gets direct I/O, as its settings ask for and as a probe finds.
// It doesn't know what the store keeps.
#pragma once

#include <string>

#include "backends/io.h"
#include "backends/store_spec.h"
#include "offload/status.h"

namespace kvbed {

struct DirectSupport {
  bool direct = false;
  std::string reason;      // why not; or what a flag that is in effect doesn't mean
  std::string filesystem;  // "ext4", ...
};

// `directory` holds a STORE file. A writer's probe writes and reads back one page, a reader's reads
// one; so does a writer's on a full disk, where removing must still work. An error only when
// direct I/O is required and can't be had: it names the filesystem, the cause and the remedy.
Result<DirectSupport> FindDirectSupport(Io& io, const std::string& directory, DirectMode mode,
                                        bool write);

}  // namespace kvbed
