#include "backends/slab_channel.h"

#include <algorithm>

namespace kvbed {

Result<std::unique_ptr<SlabChannel>> SlabChannel::Open(Io& io, const ChannelOptions& options) {
  KVBED_ASSIGN_OR_RETURN(auto queue,
                         io.OpenQueue({.iodepth = options.iodepth, .memory = options.memory}));
  return std::unique_ptr<SlabChannel>(new SlabChannel(std::move(queue)));
}

void SlabChannel::Stage(StoreRequest& request, SlabFile& slab, uint64_t slot) {
  if (idle_.empty()) idle_.push_back(&transfers_.emplace_back());
  SlabTransfer* const transfer = idle_.back();
  idle_.pop_back();
  transfer->request = &request;
  transfer->slab = &slab;
  transfer->slot = slot;
  transfer->io = IoRequest{
      .op = request.op == StoreRequest::Op::kPut ? IoOp::kWrite : IoOp::kRead,
      .file = &slab.file,
      .offset = slot * slab.record_bytes,
      .buffer = request.record,
      .owner = transfer,
  };
  staged_.push_back(&transfer->io);
}

void SlabChannel::Submit() {
  if (staged_.empty()) return;
  for (const IoRequest* request : staged_) {
    if (std::find(attached_.begin(), attached_.end(), request->file) != attached_.end()) continue;
    // A file that can't be registered works all the same; info() says so.
    queue_->AttachFile(*request->file).IgnoreError();
    attached_.push_back(request->file);
  }
  queue_->Submit(staged_);
  staged_.clear();
  peak_ = std::max(peak_, queue_->outstanding());
}

Status SlabChannel::Reap(size_t min_complete, std::vector<StoreRequest*>& completed,
                         std::vector<SlabTransfer*>& landed) {
  const size_t finished = finished_.size();
  completed.insert(completed.end(), finished_.begin(), finished_.end());
  finished_.clear();
  if (queue_->outstanding() == 0) return Status::Ok();
  reaped_.clear();
  const Status status =
      queue_->Reap(min_complete > finished ? min_complete - finished : 0, reaped_);
  for (IoRequest* request : reaped_) landed.push_back(static_cast<SlabTransfer*>(request->owner));
  return status;
}

void SlabChannel::Recycle(SlabTransfer& transfer) {
  transfer.request = nullptr;
  idle_.push_back(&transfer);
}

std::vector<SlabTransfer*> SlabChannel::Close() {
  queue_.reset();
  std::vector<SlabTransfer*> left;
  for (SlabTransfer& transfer : transfers_) {
    if (transfer.request != nullptr) left.push_back(&transfer);
  }
  return left;
}

IoQueueInfo SlabChannel::info() {
  peak_seen_ = peak_;
  return queue_->info();
}

}  // namespace kvbed
