// A channel of the slab store: its queue and the transfers in it. It doesn't know the index;
// the store says where a record goes and what a landed transfer means. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "backends/io.h"
#include "backends/slab_files.h"
#include "offload/block_store.h"

namespace kvbed {

// One record on its way to or from a slot.
struct SlabTransfer {
  IoRequest io;
  StoreRequest* request = nullptr;  // null when the transfer is idle
  SlabFile* slab = nullptr;
  uint64_t slot = 0;
};

class SlabChannel {
 public:
  static Result<std::unique_ptr<SlabChannel>> Open(Io& io, const ChannelOptions& options);

  // Stages a transfer; it is given to the device by Submit.
  void Stage(StoreRequest& request, SlabFile& slab, uint64_t slot);
  // Makes I/O on the files of staged transfers cheap where that is possible, and submits.
  void Submit();
  // A request that is done without a transfer.
  void Finish(StoreRequest& request) { finished_.push_back(&request); }

  // Moves finished requests to `completed` and waits for transfers until there are
  // `min_complete` of both. Landed transfers stay valid until they are recycled.
  Status Reap(size_t min_complete, std::vector<StoreRequest*>& completed,
              std::vector<SlabTransfer*>& landed);
  void Recycle(SlabTransfer& transfer);

  // Waits for the device, then returns what was not recycled. The channel can't be used afterwards.
  std::vector<SlabTransfer*> Close();

  // Whether more requests have been in flight than when info() was last asked.
  bool info_is_new() const { return peak_ > peak_seen_; }
  IoQueueInfo info();
  std::vector<SlabTransfer*>& landed() { return landed_; }

 private:
  explicit SlabChannel(std::unique_ptr<IoQueue> queue) : queue_(std::move(queue)) {}

  std::unique_ptr<IoQueue> queue_;
  std::deque<SlabTransfer> transfers_;
  std::vector<SlabTransfer*> idle_;
  std::vector<IoRequest*> staged_;
  std::vector<IoRequest*> reaped_;
  std::vector<SlabTransfer*> landed_;  // the store's while it reaps
  std::vector<StoreRequest*> finished_;
  std::vector<const File*> attached_;
  size_t peak_ = 0;
  size_t peak_seen_ = 0;
};

}  // namespace kvbed
