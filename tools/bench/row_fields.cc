#include "tools/bench/row_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/bench/statistics.h"
#include "tools/console.h"

namespace kvbed {

Json LatencyJson(const std::vector<uint64_t>& latencies_ns, std::string_view what) {
  const Percentiles percentiles = PercentilesOf(latencies_ns);
  const std::string few = fmt::format("only {} {} were timed", latencies_ns.size(), what);
  Json out;
  SetOrReason(out, "p50", percentiles.p50, few);
  SetOrReason(out, "p99", percentiles.p99, few);
  SetOrReason(out, "p99_9", percentiles.p99_9, few);
  out["n"] = latencies_ns.size();
  return out;
}

const Json* FindField(const Json& row, const char* path) {
  const Json::json_pointer pointer(path);
  return row.contains(pointer) && !row.at(pointer).is_null() ? &row.at(pointer) : nullptr;
}

namespace {

// So many digits after the point, or two digits that aren't 0: a small value isn't none.
std::string Fixed(double value, int digits) {
  const bool small = value != 0 && std::abs(value) < std::pow(10, 1 - digits);
  return small ? fmt::format("{:.2g}", value) : fmt::format("{:.{}f}", value, digits);
}

}  // namespace

std::string FieldText(const Json& row, const char* path, int digits, const char* absent) {
  const Json* value = FindField(row, path);
  if (value == nullptr) return absent;
  if (value->is_string()) return value->get<std::string>();
  if (digits == kNsInSeconds) return Fixed(value->get<double>() / 1e9, 3);
  if (digits >= 0 && value->is_number()) {
    return Fixed(value->get<double>(), digits);
  }
  return value->dump();
}

std::string ShownText(const Json& row, const char* path, int digits, const char* absent) {
  return Printable(FieldText(row, path, digits, absent));
}

std::string MachineText(const Json& row) {
  const auto text = [&](const char* path) { return ShownText(row, path, -1, "unknown"); };
  const Json* memory = FindField(row, "/env/memory_bytes");
  return fmt::format("kvbed {}: {}, {} CPUs, {:.0f} GiB, {}", text("/kvbed_version"),
                     text("/env/cpu"), text("/env/cpus_usable"),
                     memory ? memory->get<double>() / (1 << 30) : 0, text("/env/kernel"));
}

}  // namespace kvbed
