// A store that breaks as a StoreFaults says, over any other. Faults strike whole records, whatever
// the store beneath keeps them in.
#pragma once

#include <memory>

#include "backends/store_faults.h"
#include "offload/block_store.h"

namespace kvbed {

// A put can fail (eio, enospc, eagain, eintr), come late, or report success and leave damage that
// every later get shows: a flipped bit, a short or torn record, an older state of the block or
// zeroes (stale_record), nothing (lost_writes, reordered_writes), the data over another record
// (misdirected_write). A get can fail, come late, flip a bit, be short, or bring another record's
// bytes. Flush, commit and remove can fail. `faults` must outlive the store and its channels; with
// nothing in it the store behaves as `base`.
std::unique_ptr<BlockStore> MakeFaultyStore(std::unique_ptr<BlockStore> base, StoreFaults& faults);

}  // namespace kvbed
