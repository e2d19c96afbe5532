// Time to the first token of a resumed sequence, by each way of getting its cache: restored from
// the store, copied from memory, still in memory, or computed again.
#pragma once

#include <cstdint>

#include "offload/status.h"
#include "tools/bench/load_mover.h"
#include "tools/bench/measurement.h"
#include "tools/bench/real_kv.h"

namespace kvbed {

struct TtftPlace {
  BlockStore& store;
  LoadMover& mover;
  BlockPool& pool;
  std::string snapshot;  // of the whole prompt
  uint32_t repetitions = 5;
};

// The pool must be free. What couldn't be measured has a reason; an error is the engine's or the
// store's.
Result<TtftSamples> MeasureTtft(const TtftPlace& place, RealKv& kv);

}  // namespace kvbed
