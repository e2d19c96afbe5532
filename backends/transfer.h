// One request on its way through a queue: what to ask the device for next, and what its answer
// means. Both engines move bytes with it, so partial transfers, splits, EAGAIN, EINTR, the end of a
// file and injected faults are handled once. It makes no system call that moves data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "backends/device_call.h"
#include "backends/fault_device.h"
#include "backends/io.h"
#include "offload/status.h"

namespace kvbed {

// Linux's MAX_RW_COUNT: no read or write moves more in one go (man 2 write).
inline constexpr uint64_t kKernelTransferBytesMax = 0x7ffff000;
inline constexpr uint32_t kRetriesMax = 64;  // of EAGAIN, EINTR or no progress, in a row

void SleepUntil(uint64_t monotonic_ns);

// Invalid argument when the options make no queue.
Status CheckQueueOptions(const IoQueueOptions& options);

class Transfer {
 public:
  // What the engine does next: make call() and bring its result to Answer; call Start again at
  // not_before_ns(); or hand the request back, which has its outcome.
  enum class Next { kCall, kWait, kDone };

  // Makes a request ready to go: clears its outcome. False when it is complete at once, because
  // it asks for nothing or for what can't be done.
  static bool Admit(IoRequest& request);
  // Ends a request that the device will not be given.
  static void Drop(IoRequest& request, const Status& status);

  Transfer() = default;  // of no request
  Transfer(IoRequest& request, const IoQueueOptions& options);

  IoRequest* request() const { return request_; }
  Next Start();
  const DeviceCall& call() const { return call_; }
  // `result` as a system call of io_uring says it: a count of bytes, or a negative errno.
  Next Answer(int64_t result);
  uint64_t not_before_ns() const { return not_before_ns_; }

  // Ends the request with `status` although the call that Start asked for was never made.
  void Abandon(const Status& status);

 private:
  DeviceCall NextCall() const;
  Next Judge(int64_t result);
  Next JudgeShort(int64_t result);
  Next Retry(std::string_view why);
  Next Finish(Status status);

  IoRequest* request_ = nullptr;
  uint64_t transfer_bytes_max_ = kTransferBytesMax;
  FaultDevice* faults_ = nullptr;

  DeviceCall asked_;  // what the request needs
  DeviceCall call_;   // what the device is asked: the same unless a fault strikes
  uint64_t not_before_ns_ = 0;
  uint32_t retries_ = 0;
  bool delayed_ = false;
  std::optional<FaultDevice::Attempt> attempt_;
};

}  // namespace kvbed
