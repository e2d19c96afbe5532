#include "tools/plan/plan_wording.h"

#include <fmt/format.h>

#include "tools/wording.h"

namespace kvbed {
namespace {

// Above this a whole number's last digits mean nothing anyhow.
constexpr double kWholeMost = 1e15;

}  // namespace

std::string ThreeDigits(double value) {
  if (value >= kWholeMost) return fmt::format("{:.3g}", value);
  if (value >= 99.95) return Thousands(static_cast<uint64_t>(value + 0.5));
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  if (value >= 0.9995) return fmt::format("{:.2f}", value);
  return fmt::format("{:#.3g}", value);
}

std::string Gigabytes(uint64_t bytes) {
  const double gb = static_cast<double>(bytes) / 1e9;
  return fmt::format("{:.{}f} GB", gb, gb < 1 ? 3 : 2);
}

std::string Gibibytes(uint64_t bytes) {
  const double gib = static_cast<double>(bytes) / (1 << 30);
  return fmt::format("{:.{}f} GiB", gib, gib < 1 ? 3 : 2);
}

std::string Seconds(double seconds) {
  if (seconds >= 1) return fmt::format("{} s", ThreeDigits(seconds));
  if (seconds >= 1e-3) return fmt::format("{} ms", ThreeDigits(seconds * 1e3));
  return fmt::format("{} us", ThreeDigits(seconds * 1e6));
}

}  // namespace kvbed
