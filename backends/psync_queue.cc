#include "backends/psync_queue.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include "backends/queue_owner.h"
#include "backends/transfer.h"

namespace kvbed {
namespace {

int64_t Make(const DeviceCall& call) {
  const int fd = call.file->fd();
  const auto offset = static_cast<off_t>(call.offset);
  int64_t result = 0;
  switch (call.op) {
    case IoOp::kRead: result = ::pread(fd, call.data, call.length_bytes, offset); break;
    case IoOp::kWrite: result = ::pwrite(fd, call.data, call.length_bytes, offset); break;
    case IoOp::kDatasync: result = ::fdatasync(fd); break;
  }
  return result < 0 ? -errno : result;
}

class PsyncQueue final : public IoQueue {
 public:
  PsyncQueue(const IoQueueOptions& options, std::string engine_reason)
      : options_(options), owner_(options) {
    info_.engine = IoEngine::kPsync;
    info_.engine_reason = std::move(engine_reason);
    info_.iodepth_requested = options.iodepth;
    info_.registered_buffers_reason = info_.registered_files_reason =
        "psync has nothing to register with";
  }

  ~PsyncQueue() override {
    for (IoRequest* request : waiting_) {
      Transfer::Drop(*request, Status::IoError("the queue was closed before this was begun"));
    }
  }

  Status AttachFile(const File& file) override {
    owner_.Check();
    if (!file.is_open()) return Status::InvalidArgument("attach a file that isn't open");
    return Status::Ok();
  }

  void Submit(std::span<IoRequest* const> requests) override {
    owner_.Check();
    for (IoRequest* request : requests) {
      if (Transfer::Admit(*request)) {
        waiting_.push_back(request);
      } else {
        finished_.push_back(request);
      }
    }
  }

  // Moves at least one request, so that a caller who never waits gets on as well.
  Status Reap(size_t min_complete, std::vector<IoRequest*>& completed) override {
    owner_.Check();
    const size_t wanted = std::min(std::max<size_t>(min_complete, 1), outstanding());
    while (finished_.size() < wanted) {
      IoRequest* request = waiting_.front();
      waiting_.pop_front();
      Move(*request);
      finished_.push_back(request);
    }
    completed.insert(completed.end(), finished_.begin(), finished_.end());
    finished_.clear();
    return Status::Ok();
  }

  size_t outstanding() const override { return waiting_.size() + finished_.size(); }
  IoQueueInfo info() const override { return info_; }

 private:
  void Move(IoRequest& request) {
    info_.iodepth_achieved = 1;
    Transfer transfer(request, options_);
    Transfer::Next next = transfer.Start();
    while (next != Transfer::Next::kDone) {
      if (next == Transfer::Next::kCall) {
        ++info_.calls;
        next = transfer.Answer(Make(transfer.call()));
      } else {
        SleepUntil(transfer.not_before_ns());
        next = transfer.Start();
      }
    }
  }

  const IoQueueOptions options_;
  const QueueOwner owner_;
  IoQueueInfo info_;
  std::deque<IoRequest*> waiting_;
  std::vector<IoRequest*> finished_;
};

}  // namespace

Result<std::unique_ptr<IoQueue>> OpenPsyncQueue(const IoQueueOptions& options,
                                                std::string engine_reason) {
  KVBED_RETURN_IF_ERROR(CheckQueueOptions(options));
  return std::unique_ptr<IoQueue>(std::make_unique<PsyncQueue>(options, std::move(engine_reason)));
}

}  // namespace kvbed
