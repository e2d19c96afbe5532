#include "backends/file_channel.h"

#include <algorithm>
#include <utility>

namespace kvbed {

FileChannel::FileChannel(std::unique_ptr<IoQueue> queue, uint32_t iodepth)
    : queue_(std::move(queue)), transfers_(iodepth) {
  for (FileTransfer& transfer : transfers_) idle_.push_back(&transfer);
}

Result<std::unique_ptr<FileChannel>> FileChannel::Open(Io& io, const ChannelOptions& options) {
  KVBED_ASSIGN_OR_RETURN(auto queue,
                         io.OpenQueue({.iodepth = options.iodepth, .memory = options.memory}));
  return std::unique_ptr<FileChannel>(new FileChannel(std::move(queue), options.iodepth));
}

FileTransfer* FileChannel::Begin() {
  if (waiting_.empty() || idle_.empty()) return nullptr;
  FileTransfer* const transfer = idle_.back();
  idle_.pop_back();
  transfer->request = waiting_.front();
  waiting_.pop_front();
  return transfer;
}

void FileChannel::Submit() {
  if (staged_.empty()) return;
  queue_->Submit(staged_);
  staged_.clear();
  peak_ = std::max(peak_, queue_->outstanding());
}

void FileChannel::Finish(FileTransfer& transfer) {
  finished_.push_back(std::exchange(transfer.request, nullptr));
  transfer.file = File();
  idle_.push_back(&transfer);
}

Status FileChannel::Reap(size_t min_complete, std::vector<FileTransfer*>& landed) {
  reaped_.clear();
  const Status status = queue_->Reap(min_complete, reaped_);
  for (IoRequest* request : reaped_) landed.push_back(static_cast<FileTransfer*>(request->owner));
  return status;
}

void FileChannel::RefuseWaiting(const Status& status) {
  for (StoreRequest* request : std::exchange(waiting_, {})) {
    request->status = status;
    finished_.push_back(request);
  }
}

size_t FileChannel::Take(std::vector<StoreRequest*>& completed) {
  const size_t taken = finished_.size();
  completed.insert(completed.end(), finished_.begin(), finished_.end());
  finished_.clear();
  return taken;
}

IoQueueInfo FileChannel::info() {
  peak_seen_ = peak_;
  return queue_->info();
}

}  // namespace kvbed
