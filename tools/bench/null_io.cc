#include "tools/bench/null_io.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "offload/clock.h"

namespace kvbed {
namespace {

// As a device: at most iodepth requests are in it, and all are done when it is asked.
class NullQueue final : public IoQueue {
 public:
  explicit NullQueue(uint32_t iodepth) { info_.iodepth_requested = iodepth; }

  Status AttachFile(const File&) override { return Status::Ok(); }

  void Submit(std::span<IoRequest* const> requests) override {
    const uint64_t now_ns = MonotonicNs();
    for (IoRequest* request : requests) {
      request->status = Status::Ok();
      request->done_bytes = request->buffer.size();
      request->submitted_ns = request->completed_ns = now_ns;
      request->attempts = 1;
      done_.push_back(request);
    }
    info_.iodepth_achieved =
        std::min(std::max(info_.iodepth_achieved, static_cast<uint32_t>(done_.size())),
                 info_.iodepth_requested);
  }

  Status Reap(size_t, std::vector<IoRequest*>& completed) override {
    completed.insert(completed.end(), done_.begin(), done_.end());
    done_.clear();
    return Status::Ok();
  }

  size_t outstanding() const override { return done_.size(); }
  IoQueueInfo info() const override { return info_; }

 private:
  std::vector<IoRequest*> done_;
  IoQueueInfo info_;
};

class NullIo final : public Io {
 public:
  explicit NullIo(std::unique_ptr<Io> base) : base_(std::move(base)) {}

  Result<File> Open(const std::string& path, const OpenOptions& options) override {
    return base_->Open(path, options);
  }
  Result<uint64_t> FileSize(const File& file) override { return base_->FileSize(file); }
  Status Preallocate(const File&, uint64_t) override { return Status::Ok(); }
  Status Truncate(const File& file, uint64_t size_bytes) override {
    return base_->Truncate(file, size_bytes);
  }
  Status SyncFile(const File& file) override { return base_->SyncFile(file); }
  Status Rename(const std::string& from, const std::string& to, RenameMode mode) override {
    return base_->Rename(from, to, mode);
  }
  Status Unlink(const std::string& path) override { return base_->Unlink(path); }
  Status MakeDirectories(const std::string& path) override { return base_->MakeDirectories(path); }
  Status RemoveDirectory(const std::string& path) override { return base_->RemoveDirectory(path); }
  Status SyncDirectory(const std::string& path) override { return base_->SyncDirectory(path); }
  Result<std::vector<DirectoryEntry>> List(const std::string& path) override {
    return base_->List(path);
  }
  Result<std::unique_ptr<IoQueue>> OpenQueue(const IoQueueOptions& options) override {
    if (options.memory.empty()) return base_->OpenQueue(options);
    return std::unique_ptr<IoQueue>(std::make_unique<NullQueue>(options.iodepth));
  }

 private:
  std::unique_ptr<Io> base_;
};

}  // namespace

std::unique_ptr<Io> MakeNullIo(std::unique_ptr<Io> base) {
  return std::make_unique<NullIo>(std::move(base));
}

}  // namespace kvbed
