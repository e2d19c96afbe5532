// The parts of a row that say what a restore is worth: time to the first token by each way, and
// where restoring and recomputing cost the same.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/bench/measurement.h"
#include "tools/result_json.h"

namespace kvbed {

// What restoring the sequences costs against recomputing them. Nothing where either isn't known.
struct RestoreWorth {
  uint64_t restore_ns = 0;    // until the first token, or until the cache is there
  uint64_t recompute_ns = 0;  // the same way
  uint64_t prefill_ns = 0;
};
// Invalid argument when a prefill at the rate that was given takes no time that can be counted.
Status CheckGivenPrefill(const BenchCell& cell);
std::optional<RestoreWorth> WorthOf(const Measurement& measurement);

// `previous` is the row of the same store and shape with the next smaller context, if any: between
// the two the crossing is looked for.
struct SmallerContext {
  uint64_t ctx_tokens = 0;
  RestoreWorth worth;
};

Json TtftJson(const Measurement& measurement);
Json BreakEvenJson(const Measurement& measurement, const std::optional<SmallerContext>& previous);

// The repetition whose values a row has; none where nothing was resumed.
std::optional<TtftRestore> MedianTtftRestore(const Measurement& measurement);

// The restore's parts don't add up to its total: which, by how much. Empty when they do.
std::string PartsThatDontSum(const TtftRestore& restore);

}  // namespace kvbed
