#include "tools/sweep/knee.h"

#include <algorithm>

namespace kvbed {
namespace {

constexpr double kPartOfPeak = 0.95;

}  // namespace

std::optional<Knee> FindKnee(std::vector<DepthPoint> points) {
  if (points.size() < 2) return std::nullopt;
  const auto by = [](auto member) {
    return [member](const DepthPoint& a, const DepthPoint& b) { return a.*member < b.*member; };
  };
  std::sort(points.begin(), points.end(), by(&DepthPoint::iodepth));
  const double peak_gb_per_s =
      std::max_element(points.begin(), points.end(), by(&DepthPoint::gb_per_s))->gb_per_s;
  const auto knee = std::find_if(points.begin(), points.end(), [&](const DepthPoint& point) {
    return point.gb_per_s >= kPartOfPeak * peak_gb_per_s;
  });
  return Knee{.iodepth = knee->iodepth,
              .gb_per_s = knee->gb_per_s,
              .lat_p50_ns = knee->lat_p50_ns,
              .peak_gb_per_s = peak_gb_per_s,
              .at_largest_depth = knee + 1 == points.end()};
}

}  // namespace kvbed
