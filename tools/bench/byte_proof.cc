#include "tools/bench/byte_proof.h"

#include <fmt/format.h>

#include <cmath>

namespace kvbed {
namespace {

constexpr double kRatioLeast = 0.98;
constexpr double kRatioMost = 1.05;
constexpr uint64_t kEnoughBytes = uint64_t{1} << 30;
// Manifests and the like pass through the process too.
constexpr double kExactWithin = 0.01;

double Ratio(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

struct DirectionEvidence {
  const char* verb;
  uint64_t app_bytes;
  std::optional<uint64_t> process_bytes;
  std::optional<uint64_t> device_bytes;
  bool redundant;
};

std::optional<double> Judge(const DirectionEvidence& direction, bool direct, ByteVerdict& verdict) {
  if (direction.app_bytes == 0 || !direction.device_bytes) return std::nullopt;
  const double ratio = Ratio(*direction.device_bytes, direction.app_bytes);
  const std::string says =
      fmt::format("the device {} {} bytes for {} asked for (ratio {:.3f})", direction.verb,
                  *direction.device_bytes, direction.app_bytes, ratio);
  if (ratio < kRatioLeast && direct) verdict.failures.push_back(says + ": a cache answered");
  if (ratio <= kRatioMost || direction.redundant) return ratio;
  const bool exact =
      direction.process_bytes &&
      std::abs(Ratio(*direction.process_bytes, direction.app_bytes) - 1) <= kExactWithin;
  if (exact && direction.app_bytes >= kEnoughBytes) {
    verdict.failures.push_back(says + ": more than the process moved");
  } else {
    verdict.other_io = true;
    verdict.remarks.push_back(says + ": other I/O on the device");
  }
  return ratio;
}

}  // namespace

ByteVerdict JudgeBytes(const ByteEvidence& evidence) {
  ByteVerdict verdict;
  const auto process = [&](auto field) -> std::optional<uint64_t> {
    return evidence.process ? std::optional((*evidence.process).*field) : std::nullopt;
  };
  const auto device = [&](auto field) -> std::optional<uint64_t> {
    return evidence.device ? std::optional((*evidence.device).*field) : std::nullopt;
  };
  verdict.read_ratio = Judge({"read", evidence.app.read_bytes, process(&ByteCounts::read_bytes),
                              device(&ByteCounts::read_bytes), false},
                             evidence.direct, verdict);
  verdict.write_ratio =
      Judge({"wrote", evidence.app.written_bytes, process(&ByteCounts::written_bytes),
             device(&ByteCounts::written_bytes), !evidence.redundancy.empty()},
            evidence.direct, verdict);
  verdict.worse_ratio = verdict.read_ratio;
  if (verdict.write_ratio && (!verdict.worse_ratio || std::abs(*verdict.write_ratio - 1) >
                                                          std::abs(*verdict.worse_ratio - 1))) {
    verdict.worse_ratio = verdict.write_ratio;
  }
  if (!evidence.direct) verdict.remarks.push_back("the I/O is not direct");
  if (evidence.source == CounterSource::kUnavailable) {
    verdict.remarks.push_back("no proof by the device: " + evidence.source_reason);
  }
  return verdict;
}

}  // namespace kvbed
