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
  std::optional<uint64_t> past_cache_bytes;
  bool redundant;
};

std::string Says(const char* who, const DirectionEvidence& direction, uint64_t bytes) {
  return fmt::format("{} {} {} bytes for {} asked for (ratio {:.3f})", who, direction.verb, bytes,
                     direction.app_bytes, Ratio(bytes, direction.app_bytes));
}

// Direct I/O of which a part was answered by memory.
void JudgeCaches(const DirectionEvidence& direction, bool process_counts, ByteVerdict& verdict) {
  const auto judge = [&](const char* who, const std::optional<uint64_t>& bytes, const char* why) {
    if (!bytes || Ratio(*bytes, direction.app_bytes) >= kRatioLeast) return;
    verdict.failures.push_back(Says(who, direction, *bytes) + why);
  };
  judge("the device", direction.device_bytes, ": a cache answered");
  judge("past the page cache the client", direction.past_cache_bytes, ": the I/O was not direct");
  // One reason is enough where the device says it too.
  if (process_counts && verdict.failures.empty()) {
    judge("the process", direction.process_bytes, ": no such I/O reached the kernel's storage");
  }
}

std::optional<double> JudgeExcess(const DirectionEvidence& direction, ByteVerdict& verdict) {
  if (!direction.device_bytes) return std::nullopt;
  const double ratio = Ratio(*direction.device_bytes, direction.app_bytes);
  if (ratio <= kRatioMost || direction.redundant) return ratio;
  const std::string says = Says("the device", direction, *direction.device_bytes);
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

std::optional<double> Judge(const ByteEvidence& evidence, const char* verb,
                            uint64_t ByteCounts::*field, bool redundant, ByteVerdict& verdict) {
  if (evidence.app.*field == 0) return std::nullopt;
  const auto bytes = [&](const std::optional<ByteCounts>& counts) {
    return counts ? std::optional((*counts).*field) : std::nullopt;
  };
  const DirectionEvidence direction{verb,
                                    evidence.app.*field,
                                    bytes(evidence.process),
                                    bytes(evidence.device),
                                    bytes(evidence.past_cache),
                                    redundant};
  ByteVerdict one;
  if (evidence.direct) JudgeCaches(direction, evidence.process_counts, one);
  const auto ratio = JudgeExcess(direction, one);
  verdict.other_io |= one.other_io;
  verdict.failures.insert(verdict.failures.end(), one.failures.begin(), one.failures.end());
  verdict.remarks.insert(verdict.remarks.end(), one.remarks.begin(), one.remarks.end());
  return ratio;
}

// What keeps a row from being published whatever the ratios are.
void Remark(const ByteEvidence& evidence, ByteVerdict& verdict) {
  if (!evidence.memory.empty()) {
    verdict.remarks.push_back(fmt::format("{} is memory and not a disk", evidence.memory));
  }
  if (!evidence.direct) verdict.remarks.push_back("the I/O is not direct");
  if (evidence.source == CounterSource::kUnavailable && evidence.memory.empty()) {
    verdict.remarks.push_back("no proof by the device: " + evidence.source_reason);
  }
  if (!evidence.weakness.empty()) {
    verdict.remarks.push_back("weak proof by the device: " + evidence.weakness);
  }
}

}  // namespace

ByteEvidence EvidenceBy(const DeviceCounters& counters) {
  ByteEvidence evidence;
  evidence.process = ByteCounts{};
  evidence.source = counters.source();
  if (evidence.source != CounterSource::kUnavailable) evidence.device = ByteCounts{};
  if (evidence.source == CounterSource::kMountStats) evidence.past_cache = ByteCounts{};
  evidence.source_reason = counters.reason();
  evidence.devices = counters.devices();
  evidence.redundancy = counters.redundancy();
  evidence.memory = counters.memory();
  evidence.weakness = counters.weakness();
  // The client's and the servers' counters are of other layers, which round in their own ways.
  evidence.process_counts = evidence.source == CounterSource::kSectors && counters.process_counts();
  return evidence;
}

ByteVerdict JudgeBytes(const ByteEvidence& evidence) {
  ByteVerdict verdict;
  verdict.read_ratio = Judge(evidence, "read", &ByteCounts::read_bytes, false, verdict);
  verdict.write_ratio =
      Judge(evidence, "wrote", &ByteCounts::written_bytes, !evidence.redundancy.empty(), verdict);
  verdict.worse_ratio = verdict.read_ratio;
  if (verdict.write_ratio && (!verdict.worse_ratio || std::abs(*verdict.write_ratio - 1) >
                                                          std::abs(*verdict.worse_ratio - 1))) {
    verdict.worse_ratio = verdict.write_ratio;
  }
  Remark(evidence, verdict);
  return verdict;
}

}  // namespace kvbed
