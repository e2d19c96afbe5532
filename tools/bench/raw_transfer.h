// The tool's own raw reader and writer: blocks of a file to and from memory over the seam's queue,
// without records, hashes or a store. What kvbed's I/O can reach: a ceiling, and a sweep's points.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/io.h"
#include "offload/bytes.h"
#include "offload/status.h"
#include "tools/bench/block_order.h"
#include "tools/bench/page_stamps.h"

namespace kvbed {

struct RawTransfer {
  bool write = false;
  std::string file;
  bool direct = true;
  uint64_t block_bytes = 0;
  uint64_t blocks = 0;
  uint32_t iodepth = 16;
  bool registered = true;  // memory and file are registered where that is possible
  BlockOrderKind order = BlockOrderKind::kSequential;
  uint64_t seed = 0;  // of a random order
};

// How one pass over the blocks is made.
struct RawPassOptions {
  // Each block gets them before it is written: the first ones, as many as are in flight, before the
  // clock starts, the others while it runs, as memory comes free.
  const PageStamps* stamps = nullptr;
  uint64_t latencies_most = 0;  // 0 keeps none; else each so many'th, to keep at most these
};

struct RawPass {
  // From the first submission to the last completion; a write's fdatasync included.
  uint64_t wall_ns = 0;
  uint64_t stamp_ns = 0;               // the part of it in which pages were stamped
  std::vector<uint64_t> latencies_ns;  // of single blocks, from when the device was given them
};

// A file and a queue with its memory, opened once and used for any number of passes by one thread.
class RawChannel {
 public:
  // `memory` holds all blocks (then block i is at its i-th place), or iodepth of them, which take
  // turns; a size between is gone through over and over, for data that nobody looks at. It must
  // outlive the channel.
  static Result<std::unique_ptr<RawChannel>> Open(Io& io, const RawTransfer& transfer,
                                                  MutableBytes memory);

  // Moves each block once. An interrupted pass returns InterruptedStatus(); after any error there
  // is no other pass.
  Result<RawPass> Pass(const RawPassOptions& options);

  IoQueueInfo info() const { return queue_->info(); }
  const File& file() const { return file_; }

  // What memory of iodepth blocks holds after a pass: a block's number, and where it is.
  struct Held {
    uint64_t block = 0;
    Bytes bytes;
  };
  std::vector<Held> HeldBlocks() const;

 private:
  RawChannel(const RawTransfer& transfer, MutableBytes memory, File file);
  MutableBytes PlaceOf(size_t slot, uint64_t block) const;
  // Returns the ns that stamping took.
  uint64_t Prepare(size_t slot, uint64_t block, const RawPassOptions& options);
  Status MoveAll(std::vector<IoRequest*> ready, const RawPassOptions& options, RawPass& pass);

  const RawTransfer transfer_;
  const MutableBytes memory_;
  const BlockOrder order_;
  const uint64_t held_;  // blocks that memory holds
  File file_;
  std::vector<IoRequest> requests_;      // one for each block in flight
  std::vector<uint64_t> block_of_slot_;  // that its request moved last
  // Goes first: it waits for what is still in flight.
  std::unique_ptr<IoQueue> queue_;
};

// One pass of a channel that is opened for it: its wall time in ns.
Result<uint64_t> RunRawTransfer(Io& io, const RawTransfer& transfer, MutableBytes memory);

}  // namespace kvbed
