#include "tools/bench/latency_json.h"

#include <fmt/format.h>

#include "tools/bench/statistics.h"

namespace kvbed {

Json LatencyJson(const std::vector<uint64_t>& latencies_ns) {
  const Percentiles percentiles = PercentilesOf(latencies_ns);
  const std::string few = fmt::format("only {} records were timed", latencies_ns.size());
  Json out;
  SetOrReason(out, "p50", percentiles.p50, few);
  SetOrReason(out, "p99", percentiles.p99, few);
  SetOrReason(out, "p99_9", percentiles.p99_9, few);
  out["n"] = latencies_ns.size();
  return out;
}

}  // namespace kvbed
