#include "tools/verify/snapshot_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace kvbed {
namespace {

constexpr uint32_t kTrialDepth = 1;

Status RestoreAndCompare(BlockStore& store, const PutSnapshot& expected,
                         const RestoreOptions& options, GotSnapshot& got) {
  KVBED_ASSIGN_OR_RETURN(const Manifest manifest, store.ReadManifest(expected.manifest.name));
  got.manifest_differs = manifest != expected.manifest;
  if (got.manifest_differs) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(std::unique_ptr<BlockPool> pool,
                         MakePoisonedPool(manifest.geometry, manifest.cached_tokens));
  got.poisoned = AllPoisoned(*pool);
  Sequence sequence(*pool, SeededIdentity(manifest.sequence_id));
  KVBED_ASSIGN_OR_RETURN(StoreChannel channel, store.OpenChannel({kTrialDepth, pool->memory()}));
  KVBED_ASSIGN_OR_RETURN(got.report, Restore(store, channel, manifest, sequence, options));
  for (uint64_t block = 0; block < sequence.blocks(); ++block) {
    const Bytes record = std::as_const(*pool).record(sequence.block_table()[block]);
    const auto& put = expected.records[block];
    const auto [differs, unused] = std::mismatch(put.begin(), put.end(), record.begin());
    if (differs == put.end()) continue;
    ++got.served_wrong;
    if (got.wrong_block) continue;
    got.wrong_block = block;
    got.wrong_byte = static_cast<uint64_t>(differs - put.begin());
  }
  return Status::Ok();
}

}  // namespace

uint64_t ChooseByte(RecordPart part, std::mt19937_64& random) {
  const uint64_t padding_at = kPageBytes + kTrialGeometry.payload_bytes();
  const uint64_t record_bytes = kTrialGeometry.record_bytes();
  switch (part) {
    case RecordPart::kHeader: return random() % kPageBytes;
    case RecordPart::kPayload: return kPageBytes + random() % kTrialGeometry.payload_bytes();
    case RecordPart::kPadding: return padding_at + random() % (record_bytes - padding_at);
    case RecordPart::kAny: break;
  }
  return random() % record_bytes;
}

Result<PutSnapshot> PutSeeded(BlockStore& store, SeededKv& kv, const PutRequest& request) {
  KVBED_RETURN_IF_ERROR(kv.GrowTo(request.tokens));
  KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                         store.OpenChannel({kTrialDepth, kv.pool().memory()}));
  PutSnapshot put;
  put.manifest = DescribeSeeded(kv.sequence(), request.name);
  OffloadOptions options;
  options.mode = request.mode;
  KVBED_RETURN_IF_ERROR(Offload(store, channel, kv.sequence(), put.manifest, options).status());
  put.records = kv.Records();
  return put;
}

std::string GotSnapshot::Text() const {
  if (!status.ok()) return status.message();
  if (manifest_differs) return "another manifest than the one that was committed was read";
  if (!report.findings.empty()) {
    const Finding& first = report.findings.front();
    return fmt::format("{}: {}", CheckName(first.check), first.message);
  }
  if (!report.failed_reads.empty()) return report.failed_reads.front().status.message();
  if (served_wrong > 0) {
    return fmt::format("block {} was served with wrong bytes, from byte {} of its record on",
                       *wrong_block, *wrong_byte);
  }
  return {};
}

GotSnapshot GetSeeded(BlockStore& store, const PutSnapshot& expected,
                      const RestoreOptions& options) {
  GotSnapshot got;
  got.status = RestoreAndCompare(store, expected, options, got);
  return got;
}

std::string WhyFindingIsWrong(const GotSnapshot& verified, const GotSnapshot& canary) {
  if (!canary.wrong_byte || verified.report.findings.empty()) return {};
  const Finding& finding = verified.report.findings.front();
  const uint64_t byte = *canary.wrong_byte;
  bool right = finding.id.key.block_index == *canary.wrong_block;
  if (byte < kPageBytes) {
    right = right && (finding.check == Check::kMagic || finding.check == Check::kVersion ||
                      finding.check == Check::kHeaderChecksum);
  } else if (byte < kPageBytes + kTrialGeometry.payload_bytes()) {
    const KvCoordinate at = kTrialGeometry.CoordinateAt(byte - kPageBytes);
    right = right && finding.check == Check::kPayload && finding.layer == at.layer &&
            finding.kv == at.part;
  } else {
    right = right && finding.check == Check::kPadding;
  }
  if (right) return {};
  return fmt::format("byte {} of block {} was changed, and the finding is about something else: {}",
                     byte, *canary.wrong_block, verified.Text());
}

}  // namespace kvbed
