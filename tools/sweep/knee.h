// The knee of a curve of throughput over queue depth: where more depth stops to pay.
// It doesn't know what was measured.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kvbed {

struct DepthPoint {
  uint32_t iodepth = 0;
  double gb_per_s = 0;
  std::optional<uint64_t> lat_p50_ns;
};

struct Knee {
  uint32_t iodepth = 0;
  double gb_per_s = 0;
  std::optional<uint64_t> lat_p50_ns;
  double peak_gb_per_s = 0;       // the highest of all depths
  bool at_largest_depth = false;  // so that still more depth might pay

  bool operator==(const Knee&) const = default;
};

// The smallest depth that reaches 95 % of the peak. Absent for fewer than two depths. `points` may
// be in any order.
std::optional<Knee> FindKnee(std::vector<DepthPoint> points);

}  // namespace kvbed
