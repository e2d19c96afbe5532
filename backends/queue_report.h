// What a store says of its queues in its StoreInfo. It doesn't know what they move.
#pragma once

#include "backends/io.h"
#include "offload/block_store.h"

namespace kvbed {

void Describe(const IoQueueInfo& queue, StoreInfo& store);

}  // namespace kvbed
