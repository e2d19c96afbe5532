#include "tools/bench/set_mover.h"

#include <utility>

#include "tools/bench/kv_source.h"
#include "tools/bench/section_meter.h"
#include "tools/interrupt.h"

namespace kvbed {
namespace {

void Append(const std::vector<uint64_t>& from, std::vector<uint64_t>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Result<OffloadedSet> SetMover::Offload(LoadMover& mover, const PartName& name, bool sync) {
  OffloadedSet out;
  out.bytes = EvidenceBy(device_);
  uint64_t number = 0;
  for (const std::vector<LoadPart>& round : shape_.rounds) {
    if (Interrupted()) return InterruptedStatus();
    KVBED_RETURN_IF_ERROR(OffloadRound(mover, round, sync, name, number, out));
  }
  return out;
}

Status SetMover::OffloadRound(LoadMover& mover, const std::vector<LoadPart>& round, bool sync,
                              const PartName& name, uint64_t& number, OffloadedSet& out) {
  std::vector<Sequence> sequences;
  sequences.reserve(round.size());
  const bool first = out.set.empty();
  std::vector<Manifest>& manifests = out.set.emplace_back();
  for (const LoadPart& part : round) {
    KVBED_ASSIGN_OR_RETURN(Sequence sequence, data_.FilledSequence(pool_, part.tokens));
    sequences.push_back(std::move(sequence));
    manifests.push_back(data_.NewManifest(name(number++), part.tokens));
  }
  if (first) out.duplicate_pages_percent = DuplicatePagePercent(sequences[0]);
  std::vector<LoadMover::OffloadPart> parts;
  for (size_t i = 0; i < round.size(); ++i) {
    parts.push_back({round[i].sequence, &sequences[i], &manifests[i], {}});
  }
  ByteEvidence section = EvidenceBy(device_);
  const SectionMeter meter(device_);
  auto sample =
      mover.Offload(parts, {.mode = CommitMode::kNew, .sync = sync, .keep_latencies = true});
  const uint64_t cpu_ns = meter.Stop(section);
  if (!sample.ok()) return sample.status();
  sample->cpu_ns = cpu_ns;
  out.sample.AddRound(*sample);
  AddDirection(section, Direction::kWrite, out.bytes);
  for (const LoadMover::OffloadPart& part : parts) {
    Append(part.report.latencies_ns, out.latencies_ns);
  }
  return Status::Ok();
}

Result<RestoredSet> SetMover::Restore(LoadMover& mover, const SnapshotSet& set) {
  RestoredSet out;
  out.bytes = EvidenceBy(device_);
  for (size_t round = 0; round < set.size() && out.failed_read.ok(); ++round) {
    if (Interrupted()) return InterruptedStatus();
    pool_.PoisonAll();
    KVBED_RETURN_IF_ERROR(RestoreRound(mover, shape_.rounds[round], set[round], out));
  }
  return out;
}

Status SetMover::RestoreRound(LoadMover& mover, const std::vector<LoadPart>& round,
                              const std::vector<Manifest>& manifests, RestoredSet& out) {
  std::vector<Sequence> sequences;
  sequences.reserve(manifests.size());
  for (const Manifest& manifest : manifests) {
    sequences.push_back(data_.NewSequence(pool_, manifest.sequence_id));
  }
  std::vector<LoadMover::RestorePart> parts;
  for (size_t i = 0; i < manifests.size(); ++i) {
    parts.push_back({round[i].sequence, &sequences[i], &manifests[i], {}});
  }
  ByteEvidence section = EvidenceBy(device_);
  const SectionMeter meter(device_);
  auto sample = mover.Restore(parts, {.keep_latencies = true});
  const uint64_t cpu_ns = meter.Stop(section);
  if (!sample.ok()) return sample.status();
  sample->cpu_ns = cpu_ns;
  out.sample.AddRound(*sample);
  AddDirection(section, Direction::kRead, out.bytes);
  for (const LoadMover::RestorePart& part : parts) {
    const RestoreReport& report = part.report;
    out.findings.insert(out.findings.end(), report.findings.begin(), report.findings.end());
    out.verified_blocks += report.blocks_restored;
    Append(report.latencies_ns, out.latencies_ns);
    if (!report.failed_reads.empty() && out.failed_read.ok()) {
      out.failed_read = report.failed_reads[0].status;
    }
  }
  return Status::Ok();
}

}  // namespace kvbed
