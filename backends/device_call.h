// One call for the device: what a queue asks the kernel to do in one go.
// It doesn't know which request it belongs to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/io.h"

namespace kvbed {

struct DeviceCall {
  IoOp op = IoOp::kRead;
  const File* file = nullptr;
  uint64_t offset = 0;
  std::byte* data = nullptr;
  uint64_t length_bytes = 0;
};

}  // namespace kvbed
