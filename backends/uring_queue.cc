#include "backends/uring_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "backends/queue_owner.h"
#include "backends/transfer.h"
#include "backends/uring_ring.h"
#include "offload/clock.h"

namespace kvbed {
namespace {

// With nothing to wait for but a pause of the queue's own, completions are looked for so often.
constexpr uint64_t kPollNs = 1'000'000;
// An io_uring_enter that the kernel keeps refusing for want of memory is given up after about a
// second.
constexpr uint32_t kEnterTriesMax = 256;
constexpr uint64_t kEnterPauseNs = 4'000'000;

class UringQueue final : public IoQueue {
 public:
  UringQueue(const IoQueueOptions& options, std::unique_ptr<UringRing> ring)
      : options_(options), owner_(options), ring_(std::move(ring)) {
    const uint32_t depth = std::min(options.iodepth, ring_->in_flight_max());
    transfers_.resize(depth);
    for (uint32_t slot = depth; slot-- > 0;) free_slots_.push_back(slot);
    info_.engine = IoEngine::kIoUring;
    info_.iodepth_requested = options.iodepth;
    info_.ring_flags = ring_->flags();
    info_.registered_files_reason = "no file was attached";
    if (options.memory.empty()) {
      info_.registered_buffers_reason = "the queue was opened without memory to register";
      return;
    }
    const Status status = ring_->RegisterBuffers(options.memory);
    info_.registered_buffers = status.ok();
    info_.registered_buffers_reason = status.message();
  }

  ~UringQueue() override { Quiesce(Status::IoError("the queue was closed before this was begun")); }

  Status AttachFile(const File& file) override {
    owner_.Check();
    if (!file.is_open()) return Status::InvalidArgument("attach a file that isn't open");
    const Status status = ring_->RegisterFile(file);
    if (status.ok()) info_.registered_files = true;
    info_.registered_files_reason = status.message();
    return Status::Ok();
  }

  void Submit(std::span<IoRequest* const> requests) override {
    owner_.Check();
    for (IoRequest* request : requests) {
      if (!Transfer::Admit(*request)) {
        finished_.push_back(request);
      } else if (!broken_.ok()) {
        Transfer::Drop(*request, broken_);
        finished_.push_back(request);
      } else {
        waiting_.push_back(request);
      }
    }
    Fill();
    if (!unsubmitted_.empty()) Enter(0);
  }

  Status Reap(size_t min_complete, std::vector<IoRequest*>& completed) override {
    owner_.Check();
    const size_t wanted = std::min(min_complete, outstanding());
    bool looked = false;
    for (;;) {
      StartHeld();
      Fill();
      if (finished_.size() >= wanted && looked) break;
      looked = true;
      WaitFor(finished_.size() >= wanted ? 0 : wanted - finished_.size());
    }
    if (!unsubmitted_.empty()) Enter(0);  // refill the device before the caller works
    completed.insert(completed.end(), finished_.begin(), finished_.end());
    finished_.clear();
    return broken_;
  }

  size_t outstanding() const override {
    return waiting_.size() + held_.size() + in_ring_ + finished_.size();
  }

  IoQueueInfo info() const override { return info_; }

 private:
  // Starts requests while there are slots. Prepares only: Enter submits.
  void Fill() {
    while (!waiting_.empty() && !free_slots_.empty()) {
      IoRequest* request = waiting_.front();
      waiting_.pop_front();
      const uint32_t slot = free_slots_.back();
      free_slots_.pop_back();
      transfers_[slot] = Transfer(*request, options_);
      Advance(slot, transfers_[slot].Start());
    }
  }

  // Starts what has waited long enough, of the retries and the injected delays.
  void StartHeld() {
    if (held_.empty()) return;
    const uint64_t now_ns = MonotonicNs();
    for (const uint32_t slot : std::exchange(held_, {})) {
      if (transfers_[slot].not_before_ns() > now_ns) {
        held_.push_back(slot);
      } else {
        Advance(slot, transfers_[slot].Start());
      }
    }
  }

  void Advance(uint32_t slot, Transfer::Next next) {
    switch (next) {
      case Transfer::Next::kCall: Prepare(slot); break;
      case Transfer::Next::kWait: held_.push_back(slot); break;
      case Transfer::Next::kDone: Free(slot); break;
    }
  }

  void Free(uint32_t slot) {
    finished_.push_back(transfers_[slot].request());
    transfers_[slot] = Transfer();
    free_slots_.push_back(slot);
  }

  void Prepare(uint32_t slot) {
    const DeviceCall& call = transfers_[slot].call();
    io_uring_sqe* sqe = io_uring_get_sqe(ring_->get());
    KVBED_CHECK(sqe != nullptr);  // there are no more slots than entries
    const int file_index = ring_->FileIndex(*call.file);
    const int fd = file_index >= 0 ? file_index : call.file->fd();
    const auto length = static_cast<unsigned>(call.length_bytes);  // <= kKernelTransferBytesMax
    const int buffer = ring_->BufferIndex({call.data, call.length_bytes});
    switch (call.op) {
      case IoOp::kRead:
        if (buffer >= 0) {
          io_uring_prep_read_fixed(sqe, fd, call.data, length, call.offset, buffer);
        } else {
          io_uring_prep_read(sqe, fd, call.data, length, call.offset);
        }
        break;
      case IoOp::kWrite:
        if (buffer >= 0) {
          io_uring_prep_write_fixed(sqe, fd, call.data, length, call.offset, buffer);
        } else {
          io_uring_prep_write(sqe, fd, call.data, length, call.offset);
        }
        break;
      case IoOp::kDatasync: io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC); break;
    }
    if (file_index >= 0) io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(sqe, slot);
    unsubmitted_.push_back(slot);
    ++in_ring_;
  }

  // Waits until something happened, `wanted` completions at best; for 0 only looks.
  void WaitFor(size_t wanted) {
    if (wanted == 0 || !held_.empty()) {
      if (in_ring_ > 0) Enter(0);
      if (wanted > 0 && Harvest() == 0) SleepUntil(EndOfPause());
    } else if (in_ring_ > 0) {
      // With more requests behind, the first completion already makes room for one.
      const size_t count = waiting_.empty() ? std::min<size_t>(wanted, in_ring_) : 1;
      Enter(static_cast<unsigned>(count));
    }
    Harvest();
  }

  uint64_t EndOfPause() const {
    uint64_t end_ns = MonotonicNs() + kPollNs;
    for (const uint32_t slot : held_) end_ns = std::min(end_ns, transfers_[slot].not_before_ns());
    return end_ns;
  }

  // Submits what is prepared and waits for `wait_count` completions, in one system call. A kernel
  // that has no room (EBUSY, EAGAIN) gets its completions drained and is asked again.
  void Enter(unsigned wait_count) {
    for (uint32_t tries = 1;; ++tries) {
      const int result = wait_count > 0 ? io_uring_submit_and_wait(ring_->get(), wait_count)
                                        : io_uring_submit_and_get_events(ring_->get());
      ForgetSubmitted();
      if (result == -EINTR || (result >= 0 && unsubmitted_.empty())) return;
      if (result < 0 && result != -EAGAIN && result != -EBUSY) return Break(-result);
      if (tries == kEnterTriesMax) return Break(result < 0 ? -result : EAGAIN);
      if (result <= 0 && Harvest() == 0) SleepUntil(MonotonicNs() + kEnterPauseNs);
      if (unsubmitted_.empty() && in_ring_ == 0) return;
      wait_count = std::min(wait_count, in_ring_);
    }
  }

  // The kernel takes entries in the order in which they were prepared.
  void ForgetSubmitted() {
    const size_t left = io_uring_sq_ready(ring_->get());
    KVBED_CHECK(left <= unsubmitted_.size());
    info_.calls += unsubmitted_.size() - left;
    unsubmitted_.erase(unsubmitted_.begin(), unsubmitted_.end() - static_cast<ptrdiff_t>(left));
    const auto in_flight = static_cast<uint32_t>(in_ring_ - left);
    info_.iodepth_achieved = std::max(info_.iodepth_achieved, in_flight);
  }

  // Acts on the completions that are there; returns how many those were.
  size_t Harvest() {
    size_t total = 0;
    std::array<io_uring_cqe*, 64> entries;
    struct Answer {
      uint32_t slot;
      int result;
    };
    std::array<Answer, 64> answers;
    for (;;) {
      const unsigned count = io_uring_peek_batch_cqe(ring_->get(), entries.data(), entries.size());
      for (unsigned i = 0; i < count; ++i) {
        answers[i] = {static_cast<uint32_t>(entries[i]->user_data), entries[i]->res};
      }
      io_uring_cq_advance(ring_->get(), count);
      // A completion that the kernel dropped would never be waited for to its end. It can't be:
      // there are no more in flight than the completion queue holds.
      KVBED_CHECK(*ring_->get()->cq.koverflow == 0);
      in_ring_ -= count;
      for (unsigned i = 0; i < count; ++i) {
        Advance(answers[i].slot, transfers_[answers[i].slot].Answer(answers[i].result));
      }
      total += count;
      if (count < entries.size()) return total;
    }
  }

  void Break(int error) {
    Quiesce(Status::IoError(
        fmt::format("io_uring_enter: {}; the queue is broken", std::strerror(error))));
  }

  // Ends everything: what the kernel never took with `status`, the rest when it completes. After
  // it nothing refers to the caller's memory and files.
  void Quiesce(const Status& status) {
    if (waiting_.empty() && held_.empty() && in_ring_ == 0) {
      if (broken_.ok()) broken_ = status;
      return;
    }
    owner_.Check();
    if (broken_.ok()) broken_ = status;
    for (IoRequest* request : std::exchange(waiting_, {})) {
      Transfer::Drop(*request, broken_);
      finished_.push_back(request);
    }
    const auto abandon = [this](uint32_t slot) {
      transfers_[slot].Abandon(broken_);
      Free(slot);
    };
    for (const uint32_t slot : std::exchange(held_, {})) abandon(slot);
    while (in_ring_ > unsubmitted_.size()) {
      io_uring_cqe* entry = nullptr;
      const int result = io_uring_wait_cqe(ring_->get(), &entry);  // submits nothing
      if (result == -EINTR) continue;
      // The kernel would still write to memory that the caller is about to free.
      KVBED_CHECK(result == 0);
      const auto slot = static_cast<uint32_t>(entry->user_data);
      const int answer = entry->res;
      io_uring_cqe_seen(ring_->get(), entry);
      --in_ring_;
      // A transfer that would go on is at its end here as well.
      if (transfers_[slot].Answer(answer) == Transfer::Next::kDone) {
        Free(slot);
      } else {
        abandon(slot);
      }
    }
    // These stay in the ring, which is never entered again.
    for (const uint32_t slot : std::exchange(unsubmitted_, {})) abandon(slot);
    in_ring_ = 0;
  }

  const IoQueueOptions options_;
  const QueueOwner owner_;
  std::unique_ptr<UringRing> ring_;
  IoQueueInfo info_;
  Status broken_;

  // A request is in exactly one of: waiting_, held_, the ring, finished_.
  std::deque<IoRequest*> waiting_;   // for a slot
  std::vector<Transfer> transfers_;  // by slot
  std::vector<uint32_t> free_slots_;
  std::vector<uint32_t> held_;         // slots that pause before their next call
  std::vector<uint32_t> unsubmitted_;  // slots prepared in the ring and not taken by the kernel yet
  uint32_t in_ring_ = 0;               // with the unsubmitted
  std::vector<IoRequest*> finished_;
};

}  // namespace

Result<std::unique_ptr<IoQueue>> OpenUringQueue(const IoQueueOptions& options, RingFlags flags) {
  KVBED_RETURN_IF_ERROR(CheckQueueOptions(options));
  KVBED_ASSIGN_OR_RETURN(std::unique_ptr<UringRing> ring,
                         UringRing::Open(options.iodepth, options.lendable, flags));
  return std::unique_ptr<IoQueue>(std::make_unique<UringQueue>(options, std::move(ring)));
}

Status ProbeUring() {
  KVBED_ASSIGN_OR_RETURN(const std::unique_ptr<UringRing> ring,
                         UringRing::Open(2, false, RingFlags::kBest));
  const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
      io_uring_get_probe_ring(ring->get()), &io_uring_free_probe);
  for (const int op : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC, IORING_OP_READ_FIXED,
                       IORING_OP_WRITE_FIXED}) {
    if (probe == nullptr || !io_uring_opcode_supported(probe.get(), op)) {
      return Status::NotSupported(ExplainRefusal(EINVAL));
    }
  }
  return Status::Ok();
}

}  // namespace kvbed
