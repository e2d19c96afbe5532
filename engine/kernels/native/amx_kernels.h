// Products of bf16 by AMX's tiles, which Highway 1.0.3 lacks.
#pragma once

#include "engine/kernels/native/kernel_table.h"

namespace kvbed {

// The CPU multiplies tiles of bf16 and the kernel lets this process do so. The first call asks for
// that, which holds for threads that are begun afterwards.
bool MayUseAmxTiles();

// `base` is the table of bf16 whose other functions it takes. Only where MayUseAmxTiles().
KernelTable AmxTable(const KernelTable& base);

}  // namespace kvbed
