// Time to the first token of resumed sequences, by each way of getting their caches: restored from
// the store, copied from memory, still in memory, or computed again. Several are resumed at once:
// their first tokens come from one decode call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offload/status.h"
#include "tools/bench/load_mover.h"
#include "tools/bench/measurement.h"
#include "tools/bench/real_kv.h"

namespace kvbed {

struct TtftPlace {
  BlockStore& store;
  LoadMover& mover;
  BlockPool& pool;
  std::vector<std::string> snapshots;  // of the whole prompt, one of each sequence
  uint32_t repetitions = 5;
};

// The pool must be free. What couldn't be measured has a reason; an error is the engine's or the
// store's.
Result<TtftSamples> MeasureTtft(const TtftPlace& place, RealKv& kv);

}  // namespace kvbed
