#include "tools/take_snapshot.h"

#include <utility>

#include "tools/interrupt.h"

namespace kvbed {

Result<TakenSnapshot> TakeSnapshot(BlockStore& store, const NamedStore& named, Decoding& decoding,
                                   const SnapshotRequest& request) {
  if (Interrupted()) return InterruptedStatus();
  Sequence& sequence = decoding.sequence();
  KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                         store.OpenChannel({named.settings.iodepth, sequence.pool().memory()}));
  OffloadOptions options;
  options.mode = request.replace ? CommitMode::kReplace : CommitMode::kNew;
  options.sync = named.settings.sync != SyncMode::kNone;
  TakenSnapshot taken;
  taken.manifest = decoding.Describe(request.name);
  KVBED_ASSIGN_OR_RETURN(taken.report.offload,
                         Offload(store, channel, sequence, taken.manifest, options));
  StoreSpec spec = named.spec;
  spec.snapshot = request.name;
  taken.report.name = request.name;
  taken.report.spec = spec.ToString();
  taken.report.kept = request.kept;
  taken.report.at_decode_call = request.at_decode_call;
  taken.report.tokens = sequence.cached_tokens();
  return taken;
}

}  // namespace kvbed
