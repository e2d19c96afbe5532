// A ring of io_uring with what is registered on it: made, asked what is in effect, and torn down.
// Private to backends/: it shows liburing. It doesn't know requests.
#pragma once

#include <liburing.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/io.h"
#include "backends/uring_queue.h"
#include "offload/status.h"

namespace kvbed {

class UringRing {
 public:
  // `entries` is rounded up to a power of two and clamped to what the kernel allows. Flags that
  // the kernel refuses with EINVAL are left out, and for a ring that threads hand on, those that
  // bind it to one.
  static Result<std::unique_ptr<UringRing>> Open(uint32_t entries, bool lendable, RingFlags flags);

  UringRing() = default;  // no ring: Open makes one
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;
  ~UringRing();

  io_uring* get() { return &ring_; }
  const std::vector<std::string>& flags() const { return flags_; }
  // Most requests that may be in flight without a full submission or completion queue.
  uint32_t in_flight_max() const;

  // In pieces of at most 1 GiB. A failure names the bytes, the limits and the remedy.
  Status RegisterBuffers(MutableBytes memory);
  // The index of the registered piece that holds all of `bytes`, or -1.
  int BufferIndex(Bytes bytes) const;

  Status RegisterFile(const File& file);
  int FileIndex(const File& file) const;  // or -1

 private:
  io_uring ring_{};
  bool open_ = false;
  std::vector<std::string> flags_;
  MutableBytes memory_;
  uint32_t file_slots_ = 0;
  std::unordered_map<const File*, int> files_;
};

// What a refused io_uring_setup comes from, in words, with the remedy.
std::string ExplainRefusal(int error);

}  // namespace kvbed
