// The tool's own raw reader and writer: the pool's memory over the seam's queue, without records,
// hashes or a store. The ceiling of what kvbed's I/O can reach.
#pragma once

#include <cstdint>
#include <string>

#include "backends/io.h"
#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

struct RawTransfer {
  bool write = false;
  std::string file;
  bool direct = true;
  uint64_t block_bytes = 0;
  uint64_t blocks = 0;
  uint32_t iodepth = 16;
};

// Blocks of the file to or from those of `memory`, over and over when it holds fewer (at least
// iodepth), which is registered where that is possible. Wall time in ns from the first submission
// to the last completion; a write's fdatasync included.
Result<uint64_t> RunRawTransfer(Io& io, const RawTransfer& transfer, MutableBytes memory);

}  // namespace kvbed
