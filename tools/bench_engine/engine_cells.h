// What `kvbed bench-engine` measures: prefills of some lengths, and decode calls of some batches
// over some contexts, each beside what the machine can do at most. It doesn't know files or tables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/machine_peaks.h"
#include "offload/status.h"

namespace kvbed {

enum class EnginePhase : uint8_t { kPrefill, kDecode };

struct EngineCell {
  EnginePhase phase = EnginePhase::kPrefill;
  uint64_t prompt_tokens = 0;  // of a prefill
  uint64_t ctx_tokens = 0;     // cached before the first decode call
  uint64_t batch = 1;          // sequences of a decode call
  uint64_t samples = 0;        // prefills, or decode calls
  uint32_t busy_threads = 0;   // that compute beside it, as another program's would

  // Of all its sequences together, at its end.
  uint64_t tokens_max() const;
  uint64_t tokens_per_sample() const {
    return phase == EnginePhase::kPrefill ? prompt_tokens : batch;
  }
};

struct EngineMeasurement {
  EngineCell cell;
  std::vector<uint64_t> samples_ns;
  // Of the sample in the middle of the cell. Bytes that a decode call reads from memory; 0 for a
  // prefill, which reads both again and again, mostly from the caches.
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  double operations = 0;  // of products, 2 for a multiplication and an addition
  // Before and after the cell; none where the machine has no native kernels.
  std::vector<double> stream_gb_per_s;
  std::vector<double> peak_gflop_per_s;
};

// `step` is told of each sample and warm-up that is done; false ends the measurement as
// interrupted. `peaks` may be null. K and V of a context are seeded values.
Result<EngineMeasurement> MeasureEngineCell(Engine& engine, const EngineCell& cell,
                                            uint32_t block_tokens, uint64_t seed,
                                            MachinePeaks* peaks, const std::function<bool()>& step);

}  // namespace kvbed
