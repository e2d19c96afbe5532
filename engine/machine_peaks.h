// What this machine can do at most for a forward pass, measured in the same run as the pass: bytes
// read from memory a second, and operations of a product that stays in the caches.
// One caller at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "offload/kv_geometry.h"
#include "offload/status.h"

namespace kvbed {

class MachinePeaks {
 public:
  // `isa` as in EngineOptions. The product is that of the native kernels: not supported where the
  // CPU has none; out of space when the memory to be read can't be had.
  static Result<MachinePeaks> Open(DType dtype, uint32_t threads, const std::string& isa);

  MachinePeaks(MachinePeaks&&) noexcept;
  MachinePeaks& operator=(MachinePeaks&&) noexcept;
  ~MachinePeaks();

  // GB/s (10^9 bytes) of all threads together reading memory, far more than the caches hold, once
  // from end to end.
  double StreamGbPerS();
  // GFLOP/s of all threads together, a multiplication and an addition being two operations.
  double GemmGflopPerS();

 private:
  struct Parts;
  explicit MachinePeaks(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kvbed
