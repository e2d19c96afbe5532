#include "tools/snapshot_damage.h"

#include <fmt/format.h>

#include <random>
#include <utility>
#include <vector>

#include "offload/aligned_buffer.h"
#include "offload/manifest.h"

namespace kvbed {
namespace {

// An element of K or V of a cached token.
FlipTarget ChooseFlip(const Manifest& manifest, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t count) { return static_cast<uint32_t>(random() % count); };
  const KvGeometry& geometry = manifest.geometry;
  FlipTarget flip;
  flip.block = below(manifest.blocks.size());
  KvCoordinate at;
  at.layer = below(geometry.layers);
  at.part = below(2) == 0 ? KvPart::kK : KvPart::kV;
  at.kv_head = below(geometry.kv_heads);
  at.token = below(manifest.blocks[flip.block].tokens_used);
  at.dim = below(geometry.head_dim);
  flip.byte = kPageBytes + geometry.ElementOffset(at);
  flip.bit = below(8);
  return flip;
}

}  // namespace

Status CheckInjection(BlockStore& store, Injection injection, const std::string& spec) {
  // A cut file takes all records with it that lie behind.
  if (injection != Injection::kTruncate) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(const std::vector<ManifestSummary> snapshots, store.ListManifests());
  if (snapshots.empty()) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("--inject truncate cuts the store's file, and {} has snapshots that would lose "
                  "records: give no --store, or one of its own",
                  spec));
}

Result<std::string> DamageSnapshot(BlockStore& store, const std::string& name, Injection injection,
                                   uint64_t seed) {
  KVBED_ASSIGN_OR_RETURN(const Manifest manifest, store.ReadManifest(name));
  std::vector<RecordLocation> locations(manifest.blocks.size());
  InjectionTarget target;
  target.seed = seed;
  // Where nothing is done to files there need be none.
  for (size_t i = 0; injection != Injection::kSkip && i < locations.size(); ++i) {
    const ManifestBlock& block = manifest.blocks[i];
    KVBED_ASSIGN_OR_RETURN(locations[i], store.Locate(block.id, block.place));
  }
  target.blocks = locations;
  target.flip = ChooseFlip(manifest, seed);
  if (injection != Injection::kStale) return InjectDamage(injection, target);
  KVBED_ASSIGN_OR_RETURN(const Manifest older, store.ReadManifest(kOlderSnapshotName));
  const ManifestBlock& tail = older.blocks.back();
  KVBED_ASSIGN_OR_RETURN(target.older_tail, store.Locate(tail.id, tail.place));
  KVBED_ASSIGN_OR_RETURN(std::string done, InjectDamage(injection, target));
  KVBED_RETURN_IF_ERROR(store.RemoveManifest(kOlderSnapshotName));
  return done;
}

}  // namespace kvbed
