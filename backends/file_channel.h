// A channel of the file-per-block store: its queue, the requests that wait, and the transfers under
// way, each with a file of its own. It doesn't know names or the index. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "backends/io.h"
#include "offload/block_store.h"

namespace kvbed {

// One record on its way to or from its file.
struct FileTransfer {
  IoRequest io;
  StoreRequest* request = nullptr;  // null when the transfer is idle
  File file;
  std::string temporary;  // of a put: the name until it is published
};

class FileChannel {
 public:
  static Result<std::unique_ptr<FileChannel>> Open(Io& io, const ChannelOptions& options);

  void Wait(StoreRequest& request) { waiting_.push_back(&request); }
  // The next request that waits, with an idle transfer for it; null when one of them is lacking, so
  // that no more files are open than the queue is deep.
  FileTransfer* Begin();
  // Gives the transfer's `io` to the device at the next Submit.
  void Stage(FileTransfer& transfer) { staged_.push_back(&transfer.io); }
  void Submit();
  // Ends a transfer: its file is closed, and its request is handed back by the next Take.
  void Finish(FileTransfer& transfer);

  // Waits for transfers until there are `min_complete`. An error is the queue's: then all have
  // landed with it, and what waits is to be refused with it too.
  Status Reap(size_t min_complete, std::vector<FileTransfer*>& landed);
  void RefuseWaiting(const Status& status);
  // Moves requests that are done to `completed`; how many those were.
  size_t Take(std::vector<StoreRequest*>& completed);

  size_t under_way() const { return transfers_.size() - idle_.size(); }
  // Whether more requests have been in flight than when info() was last asked.
  bool info_is_new() const { return peak_ > peak_seen_; }
  IoQueueInfo info();

 private:
  FileChannel(std::unique_ptr<IoQueue> queue, uint32_t iodepth);

  std::unique_ptr<IoQueue> queue_;
  std::deque<StoreRequest*> waiting_;
  std::vector<FileTransfer> transfers_;  // as many as the queue is deep
  std::vector<FileTransfer*> idle_;
  std::vector<IoRequest*> staged_;
  std::vector<IoRequest*> reaped_;
  std::vector<StoreRequest*> finished_;
  size_t peak_ = 0;
  size_t peak_seen_ = 0;
};

}  // namespace kvbed
