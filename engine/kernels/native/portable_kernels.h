// The native kernels for every instruction set with fused multiply-add; equal bits on all of them.
#pragma once

#include <vector>

#include "engine/kernels/native/kernel_table.h"

namespace kvbed {

// Those that this CPU can run, the widest vectors first.
std::vector<KernelTable> PortableTables(DType dtype);

}  // namespace kvbed
