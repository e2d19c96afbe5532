#include "backends/transfer.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include "offload/clock.h"

namespace kvbed {
namespace {

std::string Describe(const IoRequest& request) {
  switch (request.op) {
    case IoOp::kDatasync: return fmt::format("fdatasync {}", request.file->path());
    case IoOp::kRead:
    case IoOp::kWrite: break;
  }
  return fmt::format("{} {} at {}", request.op == IoOp::kRead ? "read" : "write",
                     request.file->path(), request.offset);
}

Status CheckAlignment(const IoRequest& request) {
  const uint64_t alignment = request.file->alignment_bytes();
  const auto refuse = [&](const char* what, uint64_t value) {
    return Status::InvalidArgument(
        fmt::format("{}: the {} {} is no multiple of {}, which direct I/O on this file needs",
                    Describe(request), what, value, alignment));
  };
  const auto address = reinterpret_cast<uintptr_t>(request.buffer.data());
  if (address % alignment != 0) return refuse("address", address);
  if (request.offset % alignment != 0) return refuse("offset", request.offset);
  if (request.buffer.size() % alignment != 0) return refuse("length", request.buffer.size());
  return Status::Ok();
}

Status CheckRequest(const IoRequest& request) {
  if (request.file == nullptr || !request.file->is_open()) {
    return Status::InvalidArgument("an I/O request on a file that isn't open");
  }
  if (request.op == IoOp::kDatasync) return Status::Ok();
  const auto end_max = static_cast<uint64_t>(std::numeric_limits<off_t>::max());
  if (request.offset > end_max || request.buffer.size() > end_max - request.offset) {
    return Status::InvalidArgument(fmt::format("{}: {} bytes there end beyond the largest offset",
                                               Describe(request), request.buffer.size()));
  }
  return CheckAlignment(request);
}

// How long to wait before try number `retries` of EAGAIN: 10 us doubling to 4 ms, so that 64 of
// them take about a quarter of a second.
uint64_t RetryWaitNs(uint32_t retries) {
  return std::min(uint64_t{10'000} << std::min(retries, 20u), uint64_t{4'000'000});
}

}  // namespace

void SleepUntil(uint64_t monotonic_ns) {
  const timespec until{.tv_sec = static_cast<time_t>(monotonic_ns / 1'000'000'000),
                       .tv_nsec = static_cast<long>(monotonic_ns % 1'000'000'000)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

Status CheckQueueOptions(const IoQueueOptions& options) {
  if (options.iodepth == 0) return Status::InvalidArgument("an iodepth of 0 moves nothing");
  const uint64_t bytes_max = options.transfer_bytes_max;
  if (bytes_max == 0 || bytes_max % 4096 != 0 || bytes_max > kKernelTransferBytesMax) {
    return Status::InvalidArgument(
        fmt::format("transfer_bytes_max {} is no multiple of 4096 between 4096 and {}", bytes_max,
                    kKernelTransferBytesMax));
  }
  return Status::Ok();
}

bool Transfer::Admit(IoRequest& request) {
  request.status = CheckRequest(request);
  request.done_bytes = 0;
  request.attempts = 0;
  request.submitted_ns = request.completed_ns = MonotonicNs();
  return request.status.ok() && (request.op == IoOp::kDatasync || !request.buffer.empty());
}

void Transfer::Drop(IoRequest& request, const Status& status) {
  request.status = request.file == nullptr ? status : status.WithContext(Describe(request));
  request.completed_ns = MonotonicNs();
}

Transfer::Transfer(IoRequest& request, const IoQueueOptions& options)
    : request_(&request),
      transfer_bytes_max_(options.transfer_bytes_max),
      faults_(options.faults) {}

Transfer::Next Transfer::Start() {
  for (;;) {
    if (request_->attempts++ == 0 && !delayed_) request_->submitted_ns = MonotonicNs();
    asked_ = call_ = NextCall();
    if (faults_ == nullptr) return Next::kCall;
    attempt_ = faults_->Begin(asked_, delayed_);
    delayed_ = attempt_->delay_ns > 0;
    if (delayed_) {
      --request_->attempts;
      not_before_ns_ = MonotonicNs() + attempt_->delay_ns;
      attempt_.reset();
      return Next::kWait;
    }
    if (!attempt_->answer.has_value()) {
      call_ = attempt_->call;
      return Next::kCall;
    }
    const int64_t result = faults_->End(*attempt_, *attempt_->answer);
    attempt_.reset();
    if (const Next next = Judge(result); next != Next::kCall) return next;
  }
}

Transfer::Next Transfer::Answer(int64_t result) {
  if (attempt_.has_value()) {
    result = faults_->End(*attempt_, result);
    attempt_.reset();
  }
  const Next next = Judge(result);
  return next == Next::kCall ? Start() : next;
}

void Transfer::Abandon(const Status& status) {
  if (attempt_.has_value()) static_cast<void>(faults_->End(*attempt_, -ECANCELED));
  attempt_.reset();
  Drop(*request_, status);
}

// The rest of the request from the last aligned place on: what was moved beyond it is moved again,
// with the same bytes, so that a direct file never sees an odd address, offset or length.
DeviceCall Transfer::NextCall() const {
  DeviceCall call{.op = request_->op, .file = request_->file};
  if (call.op == IoOp::kDatasync) return call;
  const uint64_t alignment = request_->file->alignment_bytes();
  const uint64_t skip_bytes = request_->done_bytes / alignment * alignment;
  const uint64_t bytes_max = std::max(transfer_bytes_max_ / alignment * alignment, alignment);
  call.offset = request_->offset + skip_bytes;
  call.data = request_->buffer.data() + skip_bytes;
  call.length_bytes = std::min(request_->buffer.size() - skip_bytes, bytes_max);
  return call;
}

// What an answer means. kCall: go on with NextCall.
Transfer::Next Transfer::Judge(int64_t result) {
  if (result == -EAGAIN || result == -EINTR) {
    return Retry(result == -EAGAIN ? "the device asked to try again (EAGAIN)"
                                   : "interrupted (EINTR)");
  }
  if (result < 0) {
    return Finish(StatusFromErrno(static_cast<int>(-result), Describe(*request_)));
  }
  if (request_->op == IoOp::kDatasync) return Finish(Status::Ok());
  KVBED_CHECK(static_cast<uint64_t>(result) <= asked_.length_bytes);
  const uint64_t reached = asked_.offset - request_->offset + static_cast<uint64_t>(result);
  if (request_->op == IoOp::kRead && reached < request_->done_bytes) {
    // What was there already was read again, in part: the rest of it may be anything now.
    request_->done_bytes = reached;
    return Retry("the device read less than before");
  }
  if (reached <= request_->done_bytes) return JudgeShort(result);
  request_->done_bytes = reached;
  retries_ = 0;
  return reached == request_->buffer.size() ? Finish(Status::Ok()) : Next::kCall;
}

// The device moved nothing that hadn't been moved: the end of the file, or a device that is stuck.
Transfer::Next Transfer::JudgeShort(int64_t result) {
  const uint64_t done_bytes = request_->done_bytes;
  const uint64_t size_bytes = request_->buffer.size();
  if (request_->op == IoOp::kWrite) {
    // Begun again from an aligned place before done_bytes, it came as far as before.
    if (result > 0) return Retry(fmt::format("stuck after {} of {} bytes", done_bytes, size_bytes));
    return Finish(Status::IoError(fmt::format("{}: the device took {} of {} bytes and then nothing",
                                              Describe(*request_), done_bytes, size_bytes)));
  }
  struct stat info {};
  if (::fstat(request_->file->fd(), &info) != 0) {
    return Finish(StatusFromErrno(errno, fmt::format("fstat {}", request_->file->path())));
  }
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  if (!S_ISREG(info.st_mode) || request_->offset + done_bytes >= file_bytes) {
    return Finish(
        Status::NotFound(fmt::format("{}: the file of {} bytes has {} of the {} asked for",
                                     Describe(*request_), file_bytes, done_bytes, size_bytes)));
  }
  return Retry(fmt::format("stuck after {} of {} bytes, although the file has {}", done_bytes,
                           size_bytes, file_bytes));
}

Transfer::Next Transfer::Retry(std::string_view why) {
  if (++retries_ > kRetriesMax) {
    return Finish(Status::IoError(
        fmt::format("{}: {}, given up after {} tries", Describe(*request_), why, retries_)));
  }
  not_before_ns_ = MonotonicNs() + RetryWaitNs(retries_);
  return Next::kWait;
}

Transfer::Next Transfer::Finish(Status status) {
  request_->status = std::move(status);
  request_->completed_ns = MonotonicNs();
  return Next::kDone;
}

}  // namespace kvbed
